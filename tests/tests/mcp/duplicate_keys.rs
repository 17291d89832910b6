//! Calls whose input has a duplicate key. They are written by hand, because the SDKs cannot produce them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::Value;

use crate::http::{JSON, bearer, send};
use crate::server::{Http, project};

const BEGIN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"hand","version":"1"}}}"#;
const BEGUN: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const TWICE: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"write_file","arguments":{"path":"f","content":"1","content":"2"}}}"#;
const LOOK: &str =
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"sandbox_list","arguments":{}}}"#;

#[track_caller]
fn is_refused(answer: &Value) {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&2.into(), &true.into()), "{answer}");
    assert!(text.starts_with("invalid_input: duplicate key `content` in an object"), "{answer}");
}

#[test]
fn on_standard_input() {
    let host = project();
    let mut command = host.command(&["mcp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().expect("koze starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut answer = || {
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        serde_json::from_str::<Value>(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    writeln!(stdin, "{BEGIN}").expect("it listens");
    assert_eq!(answer()["id"], 1);
    writeln!(stdin, "{BEGUN}\n{TWICE}").expect("it listens");
    is_refused(&answer());
    writeln!(stdin, "{LOOK}").expect("it listens");
    let list = answer();
    assert_eq!(list["result"]["structuredContent"]["sandboxes"], serde_json::json!([]), "{list}");
    drop(stdin);
    assert!(child.wait().expect("a child").success());
}

#[test]
fn over_http() {
    let host = project();
    let server = Http::start(&host, &[]);
    let headers = format!("Host: {}\r\n{JSON}{}", server.address(), bearer(&server));
    let begun = send(&server, "POST /mcp", &headers, BEGIN.as_bytes()).1;
    let session = begun.lines().find(|line| line.to_lowercase().starts_with("mcp-session-id:"));
    let headers = format!("{headers}{}\r\n", session.expect("a session").trim());
    send(&server, "POST /mcp", &headers, BEGUN.as_bytes());
    let (status, answer) = send(&server, "POST /mcp", &headers, TWICE.as_bytes());
    assert_eq!(status, 200, "{answer}");
    // An event of a stream, or a single document.
    let message = answer.lines().find_map(|line| line.find("{\"jsonrpc\"").map(|at| &line[at..]));
    is_refused(&serde_json::from_str(message.expect("a message")).expect("JSON"));
}
