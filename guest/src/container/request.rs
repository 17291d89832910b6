//! What stands in frames as JSON: the handshake, requests and answers. What is a descriptor between a guest and a host
//! of one machine is a stream of the call here.

use serde::{Deserialize, Serialize};

use crate::message::{Fault, Place, Stat};

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;
/// The longest request, in bytes, all of its pieces together.
pub const LONGEST: usize = 4 << 20;
/// The most that is kept of each stream of a program, in bytes, whatever was asked for.
pub const LARGEST_OUTPUT: u32 = 8 << 20;

/// Who connects: the first frame.
#[derive(Deserialize)]
pub struct Hello {
    /// The token that this start of the container was given.
    pub token: String,
    /// The protocol that is spoken.
    pub protocol: u32,
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Welcome {
    /// The protocol that is spoken here. To a hello of another one it is said too, and the connection ends.
    pub protocol: u32,
    /// The version of koze that the guest is of.
    pub version: &'static str,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Run a program to its end. Streams 1 and 2: what is kept of its standard output and error. [`Done::Ended`].
    Exec(Exec),
    /// A piece of a file. Stream 1: its bytes. [`Done::Size`], of the whole file.
    Read(Read),
    /// Write a file. Stream 0: its bytes, and their end puts it in place. [`Done::Size`], its own now.
    Write(Write),
    /// What is in a directory. Stream 1: a JSON list of [`Listed`]. [`Done::Nothing`].
    List(Place),
    /// What is at a place, a link at the end not followed. [`Done::Stat`].
    Stat(Place),
    /// Make a directory, and those above it. [`Done::Nothing`].
    MakeDir(Place),
    /// Make a symbolic link. [`Done::Nothing`].
    MakeLink(MakeLink),
    /// Set permission bits. [`Done::Nothing`].
    SetMode(SetMode),
    /// Take away a file, a link, or a directory with all in it. [`Done::Nothing`].
    Remove(Place),
    /// Move something. [`Done::Nothing`].
    Rename(Rename),
    /// Write a file or tree as a stream, in a form that guests alone read. Stream 1: that stream. [`Done::Nothing`].
    Pack(Pack),
    /// Make what such a stream holds at a place where nothing is, whole or not at all. Stream 0: that stream.
    /// [`Done::Size`], of all its files together.
    Unpack(Place),
    /// Kill everything but the guest. [`Done::Nothing`].
    KillAll {},
}

/// A program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Exec {
    /// The program, looked for on `PATH`, and its arguments.
    pub argv: Vec<String>,
    /// The directory it starts in, absolute.
    pub cwd: String,
    /// Variables on top of the container's own.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// How long it may run, in milliseconds; then all that came of it is killed.
    pub timeout_ms: u64,
    /// How many bytes of each stream are kept, at most [`LARGEST_OUTPUT`].
    pub max_output: u32,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Read {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How long it is at most, in bytes.
    pub limit: u64,
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Write {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// Whether the bytes come behind those that are there.
    #[serde(default)]
    pub append: bool,
}

/// A symbolic link.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct MakeLink {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// Where it leads.
    pub target: String,
}

/// Permission bits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SetMode {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// The bits.
    pub mode: u32,
}

/// A move.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Rename {
    /// From here.
    pub from: Place,
    /// To there.
    pub to: Place,
}

/// A file or tree to write as a stream.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pack {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// A name that is left out, wherever it is: that of the copy, where a tree is copied into itself.
    pub except: String,
}

/// What a call ends with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was done.
    Ok(Done),
    /// It was not.
    Failed(Fault),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Done {
    /// A program ended.
    Ended {
        /// Its exit code; 128 + n after the signal n, 124 where the time was up.
        exit_code: i32,
        /// Whether the time was up.
        timed_out: bool,
    },
    /// How long a file is.
    Size {
        /// In bytes.
        size: u64,
    },
    /// What is at a place.
    Stat(Stat),
    /// Nothing to say.
    Nothing {},
}

/// An entry of the list of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Listed<'a> {
    /// Its name. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub name: &'a str,
    /// Its metadata, in the same object.
    #[serde(flatten)]
    pub stat: &'a Stat,
}

#[cfg(test)]
mod tests {
    use serde_json::{from_str, json, to_value};

    use super::*;
    use crate::message::{Code, Kind};

    #[test]
    fn requests_as_they_are_written() {
        let place = || Place { root: "/".into(), path: "/x".into() };
        let (root, path) = (String::from("/"), String::from("/x"));
        let read = Read { root: root.clone(), path: path.clone(), offset: 0, limit: 8_388_608 };
        let exec = Exec {
            argv: vec!["ls".into()],
            cwd: "/".into(),
            env: vec![("A".into(), "b".into())],
            timeout_ms: 1000,
            max_output: 65536,
        };
        for (text, request) in [
            (
                r#"{"exec": {"argv": ["ls"], "cwd": "/", "env": [["A","b"]], "timeout_ms": 1000, "max_output": 65536}}"#,
                Request::Exec(exec),
            ),
            (r#"{"read": {"root": "/", "path": "/x", "offset": 0, "limit": 8388608}}"#, Request::Read(read)),
            (
                r#"{"write": {"root": "/", "path": "/x", "append": false}}"#,
                Request::Write(Write { root: root.clone(), path: path.clone(), append: false }),
            ),
            (r#"{"list": {"root": "/", "path": "/x"}}"#, Request::List(place())),
            (r#"{"stat": {"root": "/", "path": "/x"}}"#, Request::Stat(place())),
            (r#"{"make_dir": {"root": "/", "path": "/x"}}"#, Request::MakeDir(place())),
            (
                r#"{"make_link": {"root": "/", "path": "/x", "target": "y"}}"#,
                Request::MakeLink(MakeLink { root: root.clone(), path: path.clone(), target: "y".into() }),
            ),
            (
                r#"{"set_mode": {"root": "/", "path": "/x", "mode": 493}}"#,
                Request::SetMode(SetMode { root, path, mode: 0o755 }),
            ),
            (r#"{"remove": {"root": "/", "path": "/x"}}"#, Request::Remove(place())),
            (
                r#"{"rename": {"from": {"root": "/", "path": "/x"}, "to": {"root": "/", "path": "/x"}}}"#,
                Request::Rename(Rename { from: place(), to: place() }),
            ),
            (
                r#"{"pack": {"root": "/", "path": "/x", "except": ".y"}}"#,
                Request::Pack(Pack { root: "/".into(), path: "/x".into(), except: ".y".into() }),
            ),
            (r#"{"unpack": {"root": "/", "path": "/x"}}"#, Request::Unpack(place())),
            (r#"{"kill_all": {}}"#, Request::KillAll {}),
        ] {
            assert_eq!(from_str::<Request>(text).unwrap(), request, "{text}");
        }
        for text in ["", "{}", "[]", r#"{"format": {}}"#, r#"{"stat": {"root": "/"}}"#, r#""kill_all""#] {
            assert!(from_str::<Request>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn answers_as_they_are_written() {
        let ended = Answer::Ok(Done::Ended { exit_code: 0, timed_out: false });
        assert_eq!(to_value(ended).unwrap(), json!({"ok": {"exit_code": 0, "timed_out": false}}));
        assert_eq!(to_value(Answer::Ok(Done::Size { size: 123 })).unwrap(), json!({"ok": {"size": 123}}));
        assert_eq!(to_value(Answer::Ok(Done::Nothing {})).unwrap(), json!({"ok": {}}));
        let failed = Answer::Failed(Fault::new(Code::NotFound, "…"));
        assert_eq!(to_value(failed).unwrap(), json!({"failed": {"why": "not_found", "text": "…"}}));
        let link = Stat { kind: Kind::Link("y".into()), size: 1, mode: 0o777 };
        let stat = json!({"kind": "link", "target": "y", "size": 1, "mode": 0o777});
        assert_eq!(to_value(Answer::Ok(Done::Stat(link.clone()))).unwrap(), json!({ "ok": stat }));
        let file = Stat { kind: Kind::File, ..link };
        let entry = json!({"name": "x", "kind": "file", "target": null, "size": 1, "mode": 0o777});
        assert_eq!(to_value(Listed { name: "x", stat: &file }).unwrap(), entry);
    }
}
