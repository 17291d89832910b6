//! The routes for snapshots and for changes to files, in workerd.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};

use super::project::{Backend, serve, worker};
use crate::project::TIMEOUT;
use crate::served::{Host, TOKEN};

#[test]
fn snapshots_and_changes_over_http() {
    let worker = worker(Backend::Native);
    let host = serve(&worker, Backend::Native);
    let write = |path: &str, content: &str| {
        let input = json!({ "path": path, "content": content });
        let (failed, result) = host.call("s", "workspace__saved__write_file", &input);
        assert!(!failed, "{result}");
    };
    write("src/f", "first");
    snapshots(&host, &write);
    changes(&host, &write);
}

fn ask(host: &Host, method: &str, path: &str, body: &str) -> (u16, Value) {
    let answer = host.ask(method, &format!("/sessions/s{path}"), body.as_bytes());
    (answer.status, answer.json())
}

fn snapshots(host: &Host, write: &impl Fn(&str, &str)) {
    let empty = json!({ "snapshots": [], "sandboxes": [] });
    assert_eq!(ask(host, "GET", "/snapshots", ""), (200, empty));
    let (status, taken) = ask(host, "POST", "/snapshots", "");
    assert_eq!((status, &taken["workspace"], &taken["contents"]["bytes"]), (201, &json!("saved"), &json!(5)));
    let id = taken["id"].as_str().expect("an ID");
    write("src/f", "second");
    let (status, branch) = ask(host, "POST", &format!("/snapshots/{id}/branch"), "{}");
    let name = branch["sandbox"].as_str().unwrap_or_else(|| panic!("{status} {branch}"));
    let input = json!({ "path": "src/f", "workspace": name });
    let (failed, read) = host.call("s", "workspace__saved__read_file", &input);
    assert!(!failed && read.to_string().contains("first"), "{read}");
    let (_, list) = ask(host, "GET", "/snapshots?workspace=saved", "");
    assert_eq!(list["snapshots"], json!([taken]));
    assert_eq!(list["sandboxes"], json!([{ "name": name, "workspace": "saved", "snapshot": id }]));
    let (status, second) = ask(host, "POST", "/snapshots", &json!({ "sandbox": name }).to_string());
    assert_eq!((status, &second["parent"]), (201, &json!(id)), "{second}");
    let removed = format!("/snapshots/{id}");
    assert_eq!(ask(host, "DELETE", &removed, ""), (200, json!({ "ok": true })));
    assert_eq!(ask(host, "DELETE", &removed, "").0, 404);
    assert_eq!(ask(host, "POST", "/snapshots", r#"{"workspace": "box"}"#).0, 501);
}

fn changes(host: &Host, write: &impl Fn(&str, &str)) {
    let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).build().into();
    let url = format!("{}sessions/s/sandboxes/saved/files/workspace/src?watch", host.url());
    let response = agent.get(url).header("authorization", format!("Bearer {TOKEN}")).call().expect("events");
    let mut lines = BufReader::new(response.into_body().into_reader()).lines();
    let mut next = || {
        let mut name = String::new();
        loop {
            let line = lines.next().expect("an event").expect("a line");
            match line.split_once(": ") {
                Some(("event", text)) => text.clone_into(&mut name),
                Some(("data", text)) => {
                    return (name, serde_json::from_str::<Value>(text).expect("JSON"));
                }
                _ => assert!(line.is_empty() || line == ":", "{line}"),
            }
        }
    };
    assert_eq!(next(), ("ready".to_owned(), json!({ "entries": 2 })));
    write("src/new/g", "text");
    let mut change = |name: &str, path: &str| {
        let (given, data) = next();
        assert_eq!((given.as_str(), data["path"].as_str()), (name, Some(path)), "{data}");
    };
    change("created", "/workspace/src/new");
    change("created", "/workspace/src/new/g");
    write("src/f", "third and longer");
    change("changed", "/workspace/src/f");
}
