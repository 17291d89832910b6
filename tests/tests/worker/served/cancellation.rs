//! Cancellation: the sandbox is notified, whatever the reason.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;

use koze_tests::{eventually, hang_up};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::host::{Answer, Host, TOKEN};

/// A client of the protocol.
pub(super) struct Client<'h> {
    host: &'h Host,
    session: &'static str,
    /// The session ID from `initialize`.
    id: Option<String>,
}

impl<'h> Client<'h> {
    pub(super) fn new(host: &'h Host, session: &'static str) -> Self {
        let mut client = Client { host, session, id: None };
        let info = json!({ "name": "a test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
        let answer =
            client.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
        client.id = Some(answer.header("mcp-session-id").expect("an id").to_owned());
        client
    }

    fn send(&self, message: &Value) -> Answer {
        let bearer = format!("Bearer {TOKEN}");
        let mut headers = vec![("authorization", bearer.as_str()), ("koze-session", self.session)];
        headers.extend(self.id.as_deref().map(|id| ("mcp-session-id", id)));
        self.host.send("POST", "/mcp", &headers, message.to_string().as_bytes())
    }

    /// Runs a command with a request ID, and returns the result.
    fn shell(&self, id: &Value, sandbox: &str, command: &str) -> Value {
        let arguments = json!({ "sandbox": sandbox, "command": command });
        self.call(id, "shell", &arguments)
    }

    /// Calls a tool with a request ID, and returns the result.
    pub(super) fn call(&self, id: &Value, tool: &str, arguments: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        self.send(&call).json()["result"].clone()
    }

    pub(super) fn cancel(&self, id: &Value) {
        let params = json!({ "requestId": id, "reason": "a test" });
        let answer =
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
        assert_eq!((answer.status, answer.body.as_str()), (202, ""));
    }
}

pub(super) fn ends(host: &Host, session: &str, sandbox: &str) -> String {
    let (failed, value) = host.call(session, "shell", &json!({ "sandbox": sandbox, "command": "ends" }));
    assert!(!failed, "{value}");
    value["stdout"].as_str().expect("a text").to_owned()
}

/// Checks that a result says that its call was canceled.
#[track_caller]
fn was_cancelled(result: &Value) {
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    assert!(result["isError"] == true && text == "unavailable: the call was canceled", "{result}");
}

#[test]
fn a_client_of_the_protocol_cancels_its_own_call() {
    let persist = TempDir::new().expect("a temporary directory");
    // With a registry, all sandboxes of the session are notified; without one, those that the isolate knows.
    for host in [Host::start(), Host::with_registry(&persist)] {
        let (one, other) = (Client::new(&host, "s"), Client::new(&host, "s"));
        let elsewhere = Client { host: &host, session: "t", id: one.id.clone() };
        let nobody = Client { host: &host, session: "s", id: None };
        assert_ne!(one.id, other.id);
        thread::scope(|scope| {
            let call = scope.spawn(|| one.shell(&json!(7), "x", "wait seven 60000"));
            eventually("it runs", || ends(&host, "s", "x") == "seven begun");
            // The same ID of other clients or sessions, and other IDs, mean other calls.
            one.cancel(&json!(8));
            one.cancel(&json!("7"));
            for client in [&other, &elsewhere, &nobody] {
                client.cancel(&json!(7));
            }
            assert_eq!(one.shell(&json!(9), "x", "wait nine 700")["isError"], false);
            assert!(!call.is_finished());
            one.cancel(&json!(7));
            was_cancelled(&call.join().expect("a result"));
        });
        let expected = "seven begun, nine begun, nine done, seven canceled";
        assert_eq!(ends(&host, "s", "x"), expected);
        // The cancellation arrives before its call.
        one.cancel(&json!("early"));
        was_cancelled(&one.shell(&json!("early"), "x", "wait early 60000"));
        assert_eq!(one.shell(&json!("next"), "x", "wait next 1")["isError"], false);
        assert_eq!(
            ends(&host, "s", "x"),
            format!("{expected}, early begun, early canceled, next begun, next done")
        );
    }
}

#[test]
fn a_program_ends_when_its_client_is_gone() {
    let host = Host::start();
    let address = host.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let sent = |path: &str, body: &str| {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(&address).expect("a connection");
        stream.write_all(format!("{head}{body}").as_bytes()).expect("all of it is sent");
        stream
    };
    let input = json!({ "command": "wait gone 60000" });
    let call = json!({ "name": "shell", "arguments": input });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
    for (session, path, body) in [
        ("a", "/sessions/a/tools/shell", input.to_string()),
        ("b", "/mcp?session=b", call.to_string()),
        ("c", "/own/exec?key=c", "wait gone 60000".to_owned()),
    ] {
        let stream = sent(path, &body);
        let ends = || match session {
            "c" => host.own("exec", "key=c", "ends").expect("a text").split_off(2),
            _ => ends(&host, session, "default"),
        };
        eventually("it runs", || ends().ends_with("begun"));
        hang_up(stream);
        eventually("it is canceled", || ends().ends_with("canceled"));
    }
}

#[test]
fn dropping_a_call_cancels_it() {
    let host = Host::start();
    assert_eq!(host.own("drop", "key=a", "wait dropped 60000"), Ok("dropped begun, dropped canceled".into()));
    // A call that is awaited continues, however long it takes.
    assert_eq!(host.own("exec", "key=b", "wait long 2000"), Ok("0 waited".into()));
    assert_eq!(host.own("exec", "key=b", "ends"), Ok("0 long begun, long done".into()));
}
