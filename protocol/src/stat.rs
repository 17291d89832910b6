//! The two forms of [`Stat`]: compact in postcard, flat in JSON and JavaScript.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Kind, Stat};

/// The metadata of a path.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts", rename = "Stat"))]
pub(crate) struct Flat {
    /// Its kind.
    kind: Word,
    /// The target of a symbolic link, or `null`.
    target: Option<String>,
    /// Its size in bytes.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    size: u64,
    /// Its permission bits.
    mode: u32,
    /// When its content last changed, in milliseconds since the epoch. Older classes do not return it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional, type = "number"))]
    mtime: Option<i64>,
    /// A number of at most 52 bits that changes when its content or metadata does. Older classes do not return it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional, type = "number"))]
    version: Option<u64>,
}

/// The kind of a directory entry.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts", rename = "Kind"))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Word {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

impl Serialize for Stat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Stat { kind, size, mode, mtime, version } = self;
        if !serializer.is_human_readable() {
            return (kind, size, mode, mtime, version).serialize(serializer);
        }
        let (kind, target) = match kind {
            Kind::File => (Word::File, None),
            Kind::Directory => (Word::Directory, None),
            Kind::Link(target) => (Word::Link, Some(target.clone())),
            Kind::Other => (Word::Other, None),
        };
        Flat { kind, target, size: *size, mode: *mode, mtime: *mtime, version: *version }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Stat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            let (kind, size, mode, mtime, version) = Deserialize::deserialize(deserializer)?;
            return Ok(Stat { kind, size, mode, mtime, version });
        }
        let Flat { kind, target, size, mode, mtime, version } = Flat::deserialize(deserializer)?;
        let kind = match kind {
            Word::File => Kind::File,
            Word::Directory => Kind::Directory,
            Word::Link => Kind::Link(target.unwrap_or_default()),
            Word::Other => Kind::Other,
        };
        Ok(Stat { kind, size, mode, mtime, version })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Entry, Place};

    #[test]
    fn metadata_in_both_forms() {
        let link =
            Stat { kind: Kind::Link("y".into()), size: 1, mode: 0o777, mtime: Some(-1), version: Some(2) };
        let other = Stat { kind: Kind::Other, size: 300, mode: 0o644, mtime: None, version: None };
        for (stat, object, bytes) in [
            (
                link,
                r#"{"kind":"link","target":"y","size":1,"mode":511,"mtime":-1,"version":2}"#,
                &[2, 1, b'y', 1, 0xff, 0x03, 1, 1, 1, 2][..],
            ),
            (
                other,
                r#"{"kind":"other","target":null,"size":300,"mode":420}"#,
                &[3, 0xac, 0x02, 0xa4, 0x03, 0, 0],
            ),
        ] {
            assert_eq!(serde_json::to_string(&stat).unwrap(), object);
            assert_eq!(serde_json::from_str::<Stat>(object).unwrap(), stat);
            assert_eq!(postcard::to_stdvec(&stat).unwrap(), bytes);
            assert_eq!(postcard::from_bytes::<Stat>(bytes).unwrap(), stat);
        }
        assert!(serde_json::from_value::<Stat>(json!({ "kind": "door", "size": 1, "mode": 1 })).is_err());
        assert!(postcard::from_bytes::<Stat>(&[4, 1, 1]).is_err());
    }

    #[test]
    fn entries_and_places() {
        let stat = Stat { kind: Kind::File, size: 5, mode: 0o600, mtime: None, version: None };
        let entry = Entry { name: "n".into(), stat };
        let object =
            json!({ "name": "n", "stat": { "kind": "file", "target": null, "size": 5, "mode": 0o600 } });
        assert_eq!(serde_json::to_value(&entry).unwrap(), object);
        assert_eq!(postcard::to_stdvec(&entry).unwrap(), [1, b'n', 0, 5, 0x80, 0x03, 0, 0]);
        let place = Place { root: "/", path: "/a" };
        assert_eq!(serde_json::to_string(&place).unwrap(), r#"{"root":"/","path":"/a"}"#);
        assert_eq!(postcard::to_stdvec(&place.owned()).unwrap(), [1, b'/', 2, b'/', b'a']);
        assert_eq!(place.owned().borrowed(), place);
    }
}
