use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::*;
use crate::error::{Code, Error};
use crate::id::{SandboxName, SessionId};
use crate::profiles::Profiles;
use crate::provider::memory::Memory;
use crate::provider::{Info, Profile, Size};
use crate::sandbox::process::{Chunk, Exit, Process, ProcessId, ProcessOutput, Signal, Stream};
use crate::sandbox::{Sandbox as _, SavedDisk, Status};
use crate::tool::All;

fn session() -> Session<Memory> {
    let size = Size { memory_mib: 256, disk_mb: 1000 };
    let mut profile = Profile::new("python", "docker.io/cloudflare/sandbox:1-python", size);
    profile.env = vec![("KEY".into(), "not to be shown".into())];
    let profiles = Profiles::new(vec![profile], "python").unwrap();
    Session::new(Memory::new(), SessionId::new("t", "s").unwrap(), profiles)
}

fn ask(session: &Session<Memory>, method: &str, path: &str, body: &str) -> (u16, Value) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let request = Request {
        method: method.to_owned(),
        resource: Resource::Sandboxes,
        path: path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
        query: query.split('&').filter_map(pair).collect(),
        last_event_id: None,
        body: body.into(),
    };
    let response = pollster::block_on(answer_request::<All, _>(session, request));
    match response.body {
        Body::Json(text) => (response.status, serde_json::from_str(&text).unwrap()),
        Body::Events(_) => panic!("events"),
    }
}

#[test]
fn sandboxes_are_created_listed_described_and_destroyed() {
    let session = session();
    assert_eq!(ask(&session, "GET", "/", ""), (200, json!({ "sandboxes": [] })));
    let created = ask(&session, "POST", "/", r#"{"name": "a", "image": "python"}"#);
    assert_eq!(created, (201, json!({ "name": "a", "created": true })));
    let again = ask(&session, "POST", "/", r#"{"name": "a"}"#);
    assert_eq!(again, (200, json!({ "name": "a", "created": false })));
    let (status, list) = ask(&session, "GET", "/", "");
    assert_eq!((status, &list["sandboxes"][0]["name"]), (200, &json!("a")));
    let (status, details) = ask(&session, "GET", "/a", "");
    assert_eq!(status, 200);
    assert_eq!(details["variables"], json!(["KEY"]), "without values");
    assert_eq!(details["egress"], json!({ "internet": false, "allowed_hosts": [], "denied_hosts": [] }));
    assert_eq!(ask(&session, "DELETE", "/a", ""), (200, json!({ "ok": true })));
    assert_eq!(ask(&session, "DELETE", "/a", "").0, 404);
    assert_eq!(ask(&session, "GET", "/a", "").0, 404);
}

#[test]
fn requests_that_are_not_valid_are_refused() {
    let session = session();
    ask(&session, "POST", "/", r#"{"name": "a"}"#);
    let id = "0".repeat(32);
    for (method, path, body, status) in [
        ("POST", "/", "", 400),
        ("POST", "/", r#"{"name": "a", "nmae": 1}"#, 400),
        ("POST", "/", r#"{"name": "../b"}"#, 400),
        ("POST", "/", r#"{"name": "b", "image": "none"}"#, 400),
        ("POST", "/", r#"{"name": "b", "sleep_after_ms": 1}"#, 400),
        ("PUT", "/", "", 405),
        ("PATCH", "/a", "", 405),
        ("GET", "/a/nothing", "", 404),
        ("GET", "/none/processes", "", 404),
        ("POST", "/none/processes", r#"{"argv": ["true"]}"#, 404),
        ("POST", "/a/processes", r#"{"argv": []}"#, 400),
        ("POST", "/a/processes", r#"{"argv": ["a\u0000"]}"#, 400),
        ("POST", "/a/processes", r#"{"argv": ["a"], "working_dir": "a\u0000"}"#, 400),
        ("POST", "/a/processes", r#"{"argv": ["a"], "terminal": {"rows": 0, "columns": 1}}"#, 400),
        ("DELETE", "/a/processes", "", 405),
        ("GET", "/a/processes/1", "", 400),
        // A sandbox in memory cannot run programs.
        ("GET", &format!("/a/processes/{id}"), "", 501),
        ("PUT", &format!("/a/processes/{id}"), "", 405),
        ("GET", &format!("/a/processes/{id}/events"), "", 501),
        ("GET", &format!("/a/processes/{id}/events?since=x"), "", 400),
        ("GET", &format!("/a/processes/{id}/events?follow=x"), "", 400),
        ("GET", &format!("/a/processes/{id}/stdin"), "", 405),
        ("POST", &format!("/a/processes/{id}/signal"), r#"{"signal": "NONE"}"#, 400),
        ("POST", &format!("/a/processes/{id}/signal/x"), "", 404),
    ] {
        let (given, body) = ask(&session, method, path, body);
        assert_eq!(given, status, "{method} {path}: {body}");
        assert!(body["error"]["code"].is_string() && body["error"]["message"].is_string(), "{body}");
    }
    // No route for processes creates a sandbox.
    assert_eq!(ask(&session, "GET", "/none", "").0, 404);
}

#[test]
fn files_are_described_listed_and_removed() {
    let session = session();
    ask(&session, "POST", "/", r#"{"name": "a"}"#);
    let write = |path: &str| {
        let sandbox = pollster::block_on(session.sandbox("a")).unwrap();
        let place = crate::path::anywhere(path);
        pollster::block_on(sandbox.write(place, b"text".to_vec(), crate::sandbox::Write::Replace)).unwrap();
    };
    for path in ["/home/user/d/b", "/home/user/d/a c"] {
        write(path);
    }
    let (status, list) = ask(&session, "GET", "/a/files/home/user/d?list=", "");
    let part = |entry: &Value| json!([entry["name"], entry["kind"], entry["size"]]);
    let entries: Vec<Value> = list["entries"].as_array().unwrap().iter().map(part).collect();
    assert_eq!((status, entries), (200, vec![json!(["a c", "file", 4]), json!(["b", "file", 4])]));
    let (status, entry) = ask(&session, "GET", "/a/files/home/user/d?stat=true", "");
    assert_eq!((status, part(&entry)), (200, json!(["d", "directory", entry["size"]])));
    for (method, path, status) in [
        ("GET", "/a/files/none?stat=", 404),
        ("GET", "/none/files/home?list=", 404),
        ("DELETE", "/a/files/home/user/d/b", 200),
        ("DELETE", "/a/files/home/user/d/b", 404),
        ("DELETE", "/a/files/home/user/d", 200),
        ("GET", "/a/files/home/user/d?stat=", 404),
        ("DELETE", "/a/files", 400),
        ("DELETE", "/a/files//", 400),
        ("POST", "/a/files/home", 405),
    ] {
        assert_eq!(ask(&session, method, path, "").0, status, "{method} {path}");
    }
    assert!(is_metadata_request("DELETE", []) && is_metadata_request("GET", ["x", "list"]));
    assert!(!is_metadata_request("GET", ["archive"]) && !is_metadata_request("PUT", ["stat"]));
}

#[test]
fn saved_disks_are_listed() {
    let name = SandboxName::new("a").unwrap();
    let info = Info { name, profile: "shell".into(), status: Status::Sleeping, saved: None };
    let entry = |info: &Info, now| serde_json::to_value(SandboxEntry::new(info, now)).unwrap();
    assert_eq!(entry(&info, 5_000), json!({ "name": "a", "image": "shell", "status": "sleeping" }));
    let saved = Info { saved: Some(SavedDisk { bytes: 7, saved_at: 2_000 }), ..info };
    assert_eq!(entry(&saved, 5_000)["saved"], json!({ "bytes": 7, "age_ms": 3_000 }));
    // The clocks of two machines differ.
    assert_eq!(entry(&saved, 1_000)["saved"]["age_ms"], 0);
}

/// A process that has printed `recorded`, and ended unless it fails.
#[derive(Clone)]
struct Ended {
    id: ProcessId,
    recorded: Vec<Chunk>,
    dropped: u64,
    fails: bool,
}

impl Process for Ended {
    fn id(&self) -> &ProcessId {
        &self.id
    }

    async fn write_stdin(&self, _: Vec<u8>, _: Duration) -> crate::Result<usize> {
        Ok(0)
    }

    async fn close_stdin(&self) -> crate::Result<()> {
        Ok(())
    }

    /// Reads one chunk, as a reader that is slow would.
    async fn read(&self, cursor: u64, _: usize, _: Duration) -> crate::Result<ProcessOutput> {
        let mut at = self.dropped;
        for chunk in &self.recorded {
            let length = chunk.bytes.len() as u64;
            let from = cursor.max(self.dropped);
            if from < at + length {
                let rest = chunk.bytes[usize::try_from(from - at).unwrap()..].to_vec();
                let chunks = vec![Chunk { stream: chunk.stream, bytes: rest }];
                let dropped = from - cursor;
                return Ok(ProcessOutput { chunks, next: at + length, dropped, exit: None });
            }
            at += length;
        }
        if self.fails {
            return Err(Error::new(Code::NotFound, "the process ended with its sandbox"));
        }
        Ok(ProcessOutput { next: at, exit: Some(Exit { code: 3 }), ..ProcessOutput::default() })
    }

    async fn signal(&self, _: Signal) -> crate::Result<()> {
        Ok(())
    }

    async fn resize(&self, _: u16, _: u16) -> crate::Result<()> {
        Ok(())
    }

    async fn wait(&self, _: Duration) -> crate::Result<Option<Exit>> {
        Ok(Some(Exit { code: 3 }))
    }
}

fn ended(fails: bool) -> Ended {
    let chunk = |stream, bytes: &[u8]| Chunk { stream, bytes: bytes.to_vec() };
    let recorded = vec![
        chunk(Stream::Stdout, b"a\n\xc3"),
        chunk(Stream::Stderr, b"data: b\n\n"),
        chunk(Stream::Stdout, "ä".as_bytes()),
    ];
    Ended { id: ProcessId::random(), recorded, dropped: 5, fails }
}

fn events(process: Ended, since: u64) -> Vec<String> {
    pollster::block_on(async {
        super::events::stream_output(process, since, true).await.unwrap().collect().await
    })
}

#[test]
fn a_reader_that_connects_again_goes_on_where_it_was() {
    let all = events(ended(false), 0);
    let expected = [
        "id: 5\nevent: dropped\ndata: {\"bytes\":5}\n\n",
        "id: 8\nevent: stdout\ndata: {\"base64\":\"YQrD\"}\n\n",
        "id: 17\nevent: stderr\ndata: {\"text\":\"data: b\\n\\n\"}\n\n",
        "id: 19\nevent: stdout\ndata: {\"text\":\"ä\"}\n\n",
        "id: 19\nevent: exit\ndata: {\"exit_code\":3}\n\n",
    ];
    assert_eq!(all, expected);
    for (index, event) in expected.iter().enumerate().take(4) {
        let id: u64 = event[4..event.find('\n').unwrap()].parse().unwrap();
        assert_eq!(events(ended(false), id), expected[index + 1..], "{id}");
    }
}

#[test]
fn a_process_that_is_lost_ends_its_events() {
    let all = events(ended(true), 17);
    let expected = [
        "id: 19\nevent: stdout\ndata: {\"text\":\"ä\"}\n\n",
        "id: 19\nevent: error\ndata: {\"code\":\"not_found\",\"message\":\"the process ended with its sandbox\"}\n\n",
    ];
    assert_eq!(all, expected);
}

#[test]
fn events_are_parsed_as_they_are_written() {
    let error = ErrorDetails { code: "not_found".into(), message: "gone".into() };
    for event in [
        ProcessEvent::Stdout(EventText::Text("a\u{2028}\r\n".into())),
        ProcessEvent::Stderr(EventText::Base64("YQrD".into())),
        ProcessEvent::Dropped(DroppedOutput { bytes: 5 }),
        ProcessEvent::Exit(ProcessExit { exit_code: -1 }),
        ProcessEvent::Error(error),
    ] {
        let lines = event.encode(7);
        let lines: Vec<&str> = lines.split('\n').collect();
        let [id, name, data, "", ""] = lines[..] else { panic!("{lines:?}") };
        assert_eq!(id, "id: 7");
        let (name, data) = (name.strip_prefix("event: ").unwrap(), data.strip_prefix("data: ").unwrap());
        assert_eq!(ProcessEvent::parse(name, data).unwrap(), event);
    }
    assert!(ProcessEvent::parse("other", "{}").is_err());
    assert_eq!(EventText::Base64("YQrD".into()).into_bytes().unwrap(), b"a\n\xc3");
    assert!(EventText::Base64("*".into()).into_bytes().is_err());
}

/// Returns the methods that a route takes, in lower case.
pub(super) fn allowed_methods(path: &str) -> Vec<String> {
    let path = path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let request = Request { method: "TRACE".into(), path, ..Request::default() };
    let response = pollster::block_on(answer_request::<All, _>(&session(), request));
    let mut methods: Vec<String> = response.allow.unwrap().split(", ").map(str::to_lowercase).collect();
    methods.sort();
    methods
}
