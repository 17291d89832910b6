//! Changes of files.

use crate::Place;

/// A change of the files of a sandbox, which has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub enum Change {
    /// Creates a directory and its parents. Succeeds if it exists.
    MakeDir(Place),
    /// Creates a symbolic link.
    MakeLink {
        /// As in [`Place`].
        root: String,
        /// As in [`Place`].
        path: String,
        /// Its target, which may be any text and need not exist.
        target: String,
    },
    /// Sets the permission bits of a file or directory.
    SetMode {
        /// As in [`Place`].
        root: String,
        /// As in [`Place`].
        path: String,
        /// The bits, at most 7777 in octal.
        mode: u32,
    },
    /// Removes a file, a directory with its content, or a symbolic link itself.
    Remove(Place),
    /// Renames a file or directory; a file at `to` is replaced atomically.
    Rename {
        /// The current path.
        from: Place,
        /// The new path.
        to: Place,
    },
}

impl Change {
    /// The names of the changes in requests.
    pub const NAMES: [&str; 5] = ["make_dir", "make_link", "set_mode", "remove", "rename"];
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_as_they_are_written() {
        let place = || Place { root: "/".to_owned(), path: "/x".to_owned() };
        let (root, path) = ("/".to_owned(), "/x".to_owned());
        let at = json!({ "root": "/", "path": "/x" });
        let written = [
            (Change::MakeDir(place()), json!({ "make_dir": at })),
            (
                Change::MakeLink { root: root.clone(), path: path.clone(), target: "y".to_owned() },
                json!({ "make_link": { "root": "/", "path": "/x", "target": "y" } }),
            ),
            (
                Change::SetMode { root, path, mode: 0o755 },
                json!({ "set_mode": { "root": "/", "path": "/x", "mode": 493 } }),
            ),
            (Change::Remove(place()), json!({ "remove": at })),
            (Change::Rename { from: place(), to: place() }, json!({ "rename": { "from": at, "to": at } })),
        ];
        let names = written.iter().map(|(_, text)| text.as_object().unwrap().keys().next().unwrap());
        assert!(names.eq(Change::NAMES));
        for (number, (change, text)) in (0..).zip(written) {
            assert_eq!(serde_json::to_value(&change).unwrap(), text);
            assert_eq!(serde_json::from_value::<Change>(text).unwrap(), change);
            let bytes = postcard::to_stdvec(&change).unwrap();
            assert_eq!(bytes[0], number, "the order of the variants is part of the format");
            assert_eq!(postcard::from_bytes::<Change>(&bytes).unwrap(), change);
        }
    }
}
