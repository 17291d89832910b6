use serde_json::{from_str, json, to_value};

use super::*;
use crate::message::{Code, Kind};
use koze_protocol::edit::NearestLine;

#[test]
fn requests_as_they_are_written() {
    let place = || -> Place { Place { root: "/".into(), path: "/x".into() } };
    let Place { root, path } = place();
    let read = Read { root: root.clone(), path: path.clone(), offset: 0, limit: 8_388_608 };
    let exec = Exec {
        argv: vec!["ls".into()],
        working_dir: "/".into(),
        env: vec![("A".into(), "b".into())],
        timeout_ms: 1000,
        max_output: 65536,
        call: None,
    };
    for (text, request) in [
        (
            r#"{"exec": {"argv": ["ls"], "cwd": "/", "env": [["A","b"]], "timeout_ms": 1000, "max_output": 65536}}"#,
            Request::Exec(exec),
        ),
        (r#"{"read": {"root": "/", "path": "/x", "offset": 0, "limit": 8388608}}"#, Request::Read(read)),
        (
            r#"{"write": {"root": "/", "path": "/x", "append": false}}"#,
            Request::Write(Write { root: root.clone(), path: path.clone(), append: false, offset: None }),
        ),
        (
            r#"{"write": {"root": "/", "path": "/x", "append": true, "offset": null}}"#,
            Request::Write(Write { root: root.clone(), path: path.clone(), append: true, offset: None }),
        ),
        (
            r#"{"write": {"root": "/", "path": "/x", "append": true, "offset": 9}}"#,
            Request::Write(Write { root: root.clone(), path: path.clone(), append: true, offset: Some(9) }),
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
                first: 1,
                last: None,
                max_chars: 9,
                verbatim: false,
            }),
        ),
        (r#"{"list": {"root": "/", "path": "/x"}}"#, Request::List(place())),
        (r#"{"stat": {"root": "/", "path": "/x"}}"#, Request::Stat(place())),
        (r#"{"make_dir": {"root": "/", "path": "/x"}}"#, Request::Change(Change::MakeDir(place()))),
        (
            r#"{"make_link": {"root": "/", "path": "/x", "target": "y"}}"#,
            Request::Change(Change::MakeLink { root: root.clone(), path: path.clone(), target: "y".into() }),
        ),
        (
            r#"{"set_mode": {"root": "/", "path": "/x", "mode": 493}}"#,
            Request::Change(Change::SetMode { root, path, mode: 0o755 }),
        ),
        (r#"{"remove": {"root": "/", "path": "/x"}}"#, Request::Change(Change::Remove(place()))),
        (
            r#"{"rename": {"from": {"root": "/", "path": "/x"}, "to": {"root": "/", "path": "/x"}}}"#,
            Request::Change(Change::Rename { from: place(), to: place() }),
        ),
        (
            r#"{"pack": {"root": "/", "path": "/x", "except": ".y"}}"#,
            Request::Pack(Pack { root: "/".into(), path: "/x".into(), except: ".y".into() }),
        ),
        (r#"{"unpack": {"root": "/", "path": "/x"}}"#, Request::Unpack(place())),
        (r#"{"archive": {"root": "/", "path": "/x"}}"#, Request::Archive(place())),
        (r#"{"extract": {"root": "/", "path": "/x"}}"#, Request::Extract(place())),
        (
            r#"{"search": {"root": "/", "path": "/x", "search": {"pattern": "a", "ignoreCase": true, "include": null,
                "skipIgnored": false, "maxFileSize": 1, "binaryWithin": 2, "maxLineChars": 3, "maxLineBytes": 4,
                "maxMatches": 5, "maxSkipped": 6, "maxDirectories": 7, "maxEntries": 8, "timeoutMs": 9}}}"#,
            Request::Search(SearchFiles {
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
                call: None,
            }),
        ),
        (r#"{"listen": {"port": 3128}}"#, Request::Listen(Port { port: 3128 })),
        (r#"{"accept": {"port": 3128}}"#, Request::Accept(Port { port: 3128 })),
        (r#"{"connect": {"port": 80}}"#, Request::Connect(Port { port: 80 })),
        (r#"{"kill_all": {}}"#, Request::KillAll {}),
    ] {
        assert_eq!(from_str::<Request>(text).unwrap(), request, "{text}");
        assert_eq!(serde_json::from_value::<Request>(to_value(&request).unwrap()).unwrap(), request);
    }
}

#[test]
fn other_texts_are_no_requests() {
    for text in ["", "{}", "[]", r#"{"format": {}}"#, r#"{"stat": {"root": "/"}}"#, r#""kill_all""#] {
        assert!(from_str::<Request>(text).is_err(), "{text}");
    }
}

/// Classes write requests in snake case, for older guests.
#[test]
fn both_cases_are_read() {
    for (snake, camel) in [
        (
            r#"{"exec": {"argv": [], "cwd": "/", "timeout_ms": 1, "max_output": 2}}"#,
            r#"{"exec": {"argv": [], "workingDir": "/", "env": [], "timeoutMs": 1, "maxOutput": 2, "call": null}}"#,
        ),
        (
            r#"{"read_lines": {"root": "/", "path": "/x", "first": 1, "last": 2, "max_chars": 3, "verbatim": true}}"#,
            r#"{"read_lines": {"root": "/", "path": "/x", "first": 1, "last": 2, "maxChars": 3, "verbatim": true}}"#,
        ),
        (
            r#"{"start": {"argv": ["sh"], "cwd": "/", "terminal": {"rows": 1, "columns": 2}, "buffer": 4096, "drop_oldest": true}}"#,
            r#"{"start": {"argv": ["sh"], "workingDir": "/", "terminal": {"rows": 1, "columns": 2}, "buffer": 4096, "dropOldest": true}}"#,
        ),
        (
            r#"{"read_process": {"id": "a", "cursor": 1, "limit": 2, "wait_ms": 3, "abandoned": 9}}"#,
            r#"{"read_process": {"id": "a", "cursor": 1, "limit": 2, "waitMs": 3, "abandonedSignal": 9}}"#,
        ),
        (r#"{"write_process": {"id": "a", "wait_ms": 3}}"#, r#"{"write_process": {"id": "a", "waitMs": 3}}"#),
        (
            r#"{"wait_process": {"id": "a", "timeout_ms": 3, "abandoned": null}}"#,
            r#"{"wait_process": {"id": "a", "timeoutMs": 3, "abandonedSignal": null}}"#,
        ),
    ] {
        assert_eq!(from_str::<Request>(snake).unwrap(), from_str::<Request>(camel).unwrap(), "{snake}");
    }
}

#[test]
fn answers_as_they_are_written() {
    let ended = Answer::Ok(Done::Exited(Exited { exit_code: 0, timed_out: false }));
    assert_eq!(to_value(ended).unwrap(), json!({"ok": {"exit_code": 0, "timed_out": false}}));
    assert_eq!(to_value(Answer::Ok(Done::Size(Size { size: 123 }))).unwrap(), json!({"ok": {"size": 123}}));
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
    let done = Done::Lines(Lines { chars: 1, past_end: false, binary: false, size: 2 });
    assert_eq!(to_value(Answer::Ok(done)).unwrap(), json!({ "ok": lines }));
    assert_eq!(to_value(Answer::Ok(Done::Nothing {})).unwrap(), json!({"ok": {}}));
    let extracted = Answer::Ok(Done::Extracted(Contents { entries: 1, bytes: 2, skipped: 0 }));
    assert_eq!(to_value(extracted).unwrap(), json!({"ok": {"entries": 1, "bytes": 2, "skipped": 0}}));
    let failed = Answer::<Done>::Failed(Fault::new(Code::NotFound, "…"));
    assert_eq!(to_value(failed).unwrap(), json!({"failed": {"why": "not_found", "text": "…"}}));
    let link = Stat { kind: Kind::Link("y".into()), size: 1, mode: 0o777, mtime: Some(7), version: Some(8) };
    let stat = json!({"kind": "link", "target": "y", "size": 1, "mode": 0o777, "mtime": 7, "version": 8});
    assert_eq!(to_value(Answer::Ok(Done::Stat(link.clone()))).unwrap(), json!({ "ok": stat }));
    let file = Stat { kind: Kind::File, ..link };
    let entry = json!({
        "name": "x", "kind": "file", "target": null, "size": 1, "mode": 0o777, "mtime": 7, "version": 8
    });
    assert_eq!(to_value(Listed { name: "x", stat: &file }).unwrap(), entry);
}
