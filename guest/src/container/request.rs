//! The JSON in frames: the handshake, requests and answers. Where a local guest gets a file descriptor, this protocol
//! uses a stream of the call.

use serde::{Deserialize, Serialize};

use koze_protocol::edit::Edited;
use koze_protocol::lines::LineRange;

use crate::message::{Fault, Place, Stat};

/// The version of the protocol.
pub const PROTOCOL: u32 = 2;
/// The maximum length of a request over all its pieces, in bytes.
pub const MAX_REQUEST: usize = 4 << 20;
/// The maximum of kept output of each stream of a program, in bytes, whatever the request says.
pub const LARGEST_OUTPUT: u32 = 8 << 20;

/// The first frame of the client.
#[derive(Deserialize)]
pub struct Hello {
    /// The token of this start of the container.
    pub token: String,
    /// The protocol version of the client.
    pub protocol: u32,
}

/// The first frame of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Welcome {
    /// The protocol version of the guest. A client with another version gets it too, and then the connection ends.
    pub protocol: u32,
    /// The version of koze that the guest was built from.
    pub version: &'static str,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Run a program until it exits. Streams 1 and 2: its kept standard output and error. Returns [`Done::Ended`].
    Exec(Exec),
    /// Read part of a file. Stream 1: its bytes. Returns [`Done::Size`] of the whole file.
    Read(Read),
    /// Write a file. Stream 0: its bytes; the end of the stream puts the file in place. Returns [`Done::Size`], its new
    /// size.
    Write(Write),
    /// Replace text in a file. Stream 0: the old text, then the new one. Returns [`Done::Edited`].
    Edit(Edit),
    /// Read lines of a text file. Stream 1: their text, to be discarded if the file is binary. Returns [`Done::Lines`].
    ReadLines(ReadLines),
    /// List a directory. Stream 1: a JSON array of [`Entry`](crate::message::Entry). Returns [`Done::Nothing`].
    List(Place),
    /// Describe a path; a final link is not followed. Returns [`Done::Stat`].
    Stat(Place),
    /// Create a directory and its parents. Returns [`Done::Nothing`].
    MakeDir(Place),
    /// Create a symbolic link. Returns [`Done::Nothing`].
    MakeLink(MakeLink),
    /// Set permission bits. Returns [`Done::Nothing`].
    SetMode(SetMode),
    /// Remove a file, a link, or a directory with its content. Returns [`Done::Nothing`].
    Remove(Place),
    /// Rename a file or directory. Returns [`Done::Nothing`].
    Rename(Rename),
    /// Serialize a file or tree in a format that only guests read. Stream 1: the serialized bytes. Returns
    /// [`Done::Nothing`].
    Pack(Pack),
    /// Create the serialized file or tree at a path that does not exist yet, completely or not at all. Stream 0: the
    /// serialized bytes. Returns [`Done::Size`], the total size of its files.
    Unpack(Place),
    /// Search the lines of a file, or of the files of a directory. Stream 1: [`Searched`] as JSON. Returns
    /// [`Done::Nothing`].
    ///
    /// [`Searched`]: koze_protocol::search::Searched
    Search(Search),
    /// Start a program that runs on. [`Done::Started`].
    Start(Start),
    /// Whether there is such a process. [`Done::Process`].
    Process(OneProcess),
    /// All processes, the oldest first. Stream 1: a JSON list of [`ProcessInfo`]. [`Done::Nothing`].
    Processes {},
    /// What a process writes, once there is something. Stream 1: its bytes. [`Done::Output`].
    ReadProcess(ReadProcess),
    /// Write to the standard input of a process. Stream 0: the bytes. [`Done::Taken`].
    WriteProcess(WriteProcess),
    /// Close the standard input of a process. [`Done::Nothing`].
    CloseProcess(OneProcess),
    /// Send a signal. [`Done::Nothing`].
    SignalProcess(SignalProcess),
    /// Set the size of a terminal. [`Done::Nothing`].
    ResizeProcess(ResizeProcess),
    /// Wait for the end of a process. [`Done::Exit`].
    WaitProcess(WaitProcess),
    /// Kill every process but the guest. Returns [`Done::Nothing`].
    KillAll {},
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Exec {
    /// The program, resolved over `PATH`, and its arguments.
    pub argv: Vec<String>,
    /// The absolute path of its working directory.
    pub cwd: String,
    /// Variables that override the container's own.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// The timeout in milliseconds. After it the program and its descendants are killed.
    pub timeout_ms: u64,
    /// How many bytes of each stream are kept, at most [`LARGEST_OUTPUT`].
    pub max_output: u32,
}

/// The part of a file to read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Read {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// Its start, in bytes.
    pub offset: u64,
    /// Its maximum length, in bytes.
    pub limit: u64,
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Write {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// Whether to append the bytes.
    #[serde(default)]
    pub append: bool,
}

/// A text to replace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Edit {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// The length of the old text, in bytes.
    pub old: u64,
    /// Whether to replace every occurrence.
    pub all: bool,
}

/// Lines of a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ReadLines {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// Which lines.
    #[serde(flatten)]
    pub range: LineRange,
}

/// A symbolic link to create.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct MakeLink {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// Its target.
    pub target: String,
}

/// Permission bits to set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SetMode {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// The bits.
    pub mode: u32,
}

/// A rename.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Rename {
    /// The current path.
    pub from: Place,
    /// The new path.
    pub to: Place,
}

/// A file or tree to serialize.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pack {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// An entry name to leave out at any depth: that of the copy, when a tree is copied into itself.
    pub except: String,
}

/// A search.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Search {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// What to search for.
    pub search: koze_protocol::search::Search,
}

/// A program that runs on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Start {
    /// As in [`Exec`].
    pub argv: Vec<String>,
    /// As in [`Exec`].
    pub cwd: String,
    /// As in [`Exec`].
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// The size of its terminal; without one, it has pipes.
    pub terminal: Option<Size>,
    /// How many bytes of its output are kept.
    pub buffer: u64,
    /// Whether the oldest go when there are more. Otherwise the program waits.
    pub drop_oldest: bool,
    /// A text that [`ProcessInfo`] returns, of at most [`MAX_LABEL`] bytes.
    #[serde(default)]
    pub label: Option<String>,
}

/// The maximum length of the label of a process, in bytes.
pub const MAX_LABEL: usize = 64;

/// The size of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Size {
    /// Its rows.
    pub rows: u16,
    /// Its columns.
    pub columns: u16,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OneProcess {
    /// Its ID.
    pub id: String,
}

/// What to read of a process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ReadProcess {
    /// Its ID.
    pub id: String,
    /// Where it begins.
    pub cursor: u64,
    /// How long it is at most, in bytes.
    pub limit: u64,
    /// How long to wait for something, in milliseconds.
    pub wait_ms: u64,
    /// The signal that the process gets if the call is canceled, or the connection ends, before the answer.
    #[serde(default)]
    pub abandoned: Option<i32>,
}

/// What to write to a process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct WriteProcess {
    /// Its ID.
    pub id: String,
    /// How long to wait for it to be read, in milliseconds.
    pub wait_ms: u64,
}

/// A signal to a process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SignalProcess {
    /// Its ID.
    pub id: String,
    /// The signal's number.
    pub signal: i32,
}

/// The size of a process's terminal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ResizeProcess {
    /// Its ID.
    pub id: String,
    /// As in [`Size`].
    pub rows: u16,
    /// As in [`Size`].
    pub columns: u16,
}

/// How long to wait for a process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct WaitProcess {
    /// Its ID.
    pub id: String,
    /// In milliseconds.
    pub timeout_ms: u64,
    /// As in [`ReadProcess`].
    #[serde(default)]
    pub abandoned: Option<i32>,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The operation succeeded.
    Ok(Done),
    /// The operation failed.
    Failed(Fault),
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Done {
    /// A program exited.
    Ended {
        /// Its exit code: 128 + n after signal n, 124 after a timeout.
        exit_code: i32,
        /// Whether it timed out.
        timed_out: bool,
    },
    /// The size of a file or tree.
    Size {
        /// In bytes.
        size: u64,
    },
    /// The result of an edit.
    Edited(Edited),
    /// What lines of a file are like.
    Lines {
        /// How many characters they have.
        chars: u64,
        /// Whether the file has fewer lines than the first one.
        past_end: bool,
        /// Whether the file is binary.
        binary: bool,
        /// The size of the file, in bytes.
        size: u64,
    },
    /// A process runs.
    Started {
        /// Its ID.
        id: String,
    },
    /// A process is there.
    Process(ProcessInfo),
    /// What a process has written.
    Output {
        /// The cursor after it.
        next: u64,
        /// How many bytes before it are not kept any more.
        dropped: u64,
        /// Of which stream, and how long, its parts are.
        chunks: Vec<(u8, u64)>,
        /// Its exit code, where it has ended and all was read that it wrote before.
        exit: Option<i32>,
    },
    /// What was written to a process.
    Taken {
        /// In bytes.
        taken: u64,
    },
    /// A process has ended, or the time is up.
    Exit {
        /// Its exit code, where it has ended.
        exit: Option<i32>,
    },
    /// What is at a place.
    Stat(Stat),
    /// No result.
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

/// A process that runs or is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessInfo {
    /// Its ID.
    pub id: String,
    /// Its program, as it was given.
    pub program: String,
    /// Whether it has a terminal.
    pub terminal: bool,
    /// Its exit code, where it has ended.
    pub exit: Option<i32>,
    /// As in [`Start`].
    pub label: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::{from_str, json, to_value};

    use super::*;
    use crate::message::{Code, Kind};
    use koze_protocol::edit::NearestLine;

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
            (
                r#"{"edit": {"root": "/", "path": "/x", "old": 3, "all": true}}"#,
                Request::Edit(Edit { root: root.clone(), path: path.clone(), old: 3, all: true }),
            ),
            (
                r#"{"read_lines": {"root": "/", "path": "/x", "first": 1, "last": null, "max_chars": 9, "verbatim": false}}"#,
                Request::ReadLines(ReadLines {
                    root: root.clone(),
                    path: path.clone(),
                    range: LineRange { first: 1, last: None, max_chars: 9, verbatim: false },
                }),
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
            (
                r#"{"search": {"root": "/", "path": "/x", "search": {"pattern": "a", "ignoreCase": true, "include": null,
                    "skipIgnored": false, "maxFileSize": 1, "binaryWithin": 2, "maxLineChars": 3, "maxLineBytes": 4,
                    "maxMatches": 5, "maxSkipped": 6, "maxDirectories": 7, "maxEntries": 8, "timeoutMs": 9}}}"#,
                Request::Search(Search {
                    root: "/".into(),
                    path: "/x".into(),
                    search: koze_protocol::search::Search {
                        pattern: "a".into(),
                        ignore_case: true,
                        include: None,
                        skip_ignored: false,
                        max_file_size: 1,
                        binary_within: 2,
                        max_line_chars: 3,
                        max_line_bytes: 4,
                        max_matches: 5,
                        max_skipped: 6,
                        max_directories: 7,
                        max_entries: 8,
                        timeout_ms: 9,
                    },
                }),
            ),
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
        let edited = |edited| to_value(Answer::Ok(Done::Edited(edited))).unwrap();
        let done = Edited::Done { size: 1, replaced: 2 };
        assert_eq!(edited(done), json!({"ok": {"done": {"size": 1, "replaced": 2}}}));
        let nearest = Some(NearestLine { number: 1, text: "…".into() });
        assert_eq!(
            edited(Edited::NotFound { nearest }),
            json!({"ok": {"not_found": {"nearest": {"number": 1, "text": "…"}}}})
        );
        let ambiguous = Edited::Ambiguous { occurrences: 2, lines: vec![1, 1] };
        assert_eq!(edited(ambiguous), json!({"ok": {"ambiguous": {"occurrences": 2, "lines": [1, 1]}}}));
        let lines = json!({"chars": 1, "past_end": false, "binary": false, "size": 2});
        let done = Done::Lines { chars: 1, past_end: false, binary: false, size: 2 };
        assert_eq!(to_value(Answer::Ok(done)).unwrap(), json!({ "ok": lines }));
        assert_eq!(to_value(Answer::Ok(Done::Nothing {})).unwrap(), json!({"ok": {}}));
        let failed = Answer::Failed(Fault::new(Code::NotFound, "…"));
        assert_eq!(to_value(failed).unwrap(), json!({"failed": {"why": "not_found", "text": "…"}}));
        let link =
            Stat { kind: Kind::Link("y".into()), size: 1, mode: 0o777, mtime: Some(7), version: Some(8) };
        let stat = json!({"kind": "link", "target": "y", "size": 1, "mode": 0o777, "mtime": 7, "version": 8});
        assert_eq!(to_value(Answer::Ok(Done::Stat(link.clone()))).unwrap(), json!({ "ok": stat }));
        let file = Stat { kind: Kind::File, ..link };
        let entry = json!({
            "name": "x", "kind": "file", "target": null, "size": 1, "mode": 0o777, "mtime": 7, "version": 8
        });
        assert_eq!(to_value(Listed { name: "x", stat: &file }).unwrap(), entry);
    }
}
