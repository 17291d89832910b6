//! Cancellation, from a client through the Rust Worker to a sandbox on this machine.
//!
//! Broken connections are not tested, because wrangler's proxy keeps the request of a client that is gone.

use std::thread;

use koze_tests::{eventually, sleeps};
use serde_json::{Value, json};

use super::run::Dev;
use crate::served::rust_worker;

const TOKEN: &str = "a token of these tests";

/// Sends a message of the protocol for the client with an ID, and returns the client's ID and the answer.
const SEND: &str = "const headers = { authorization: `Bearer ${data.token}` };
    if (data.client) headers['mcp-session-id'] = data.client;
    const response = await fetch(`${url}/mcp`, { method: 'POST', headers, body: JSON.stringify(data.message) });
    return [response.headers.get('mcp-session-id'), await response.json().catch(() => null)];";

fn message(client: &Value, message: Value) -> Value {
    let mut whole = json!({ "jsonrpc": "2.0" });
    let (Value::Object(fields), Value::Object(more)) = (&mut whole, message) else { panic!("two objects") };
    fields.extend(more);
    json!({ "token": TOKEN, "client": client, "message": whole })
}

#[test]
fn a_cancelled_program_is_killed() {
    let worker = rust_worker();
    worker.project.write(".dev.vars", format!("KOZE_TOKEN=\"{TOKEN}\"\n"));
    let dev = Dev::start(&worker);
    let client = dev.client();

    let info = json!({ "name": "a test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
    let begun = message(&json!(null), json!({ "id": 0, "method": "initialize", "params": params }));
    let id = client.ask(SEND, &begun)[0].clone();
    // Far longer than the test waits for the end of the program.
    let shell = |command: &str| json!({ "name": "shell", "arguments": { "command": command, "timeout_ms": 600_000 } });
    let call = json!({ "id": 1, "method": "tools/call", "params": shell("sleep 86388") });
    let call = message(&id, call);
    let cancel = json!({ "method": "notifications/cancelled", "params": { "requestId": 1 } });
    thread::scope(|scope| {
        let called = scope.spawn(|| client.clone().ask(SEND, &call));
        eventually("the command runs", || sleeps("86388"));
        client.ask(SEND, &message(&id, cancel));
        let result = called.join().expect("an answer")[1]["result"].clone();
        assert_eq!(result["isError"], true, "{result}");
        let text = result["content"][0]["text"].as_str().expect("a text");
        assert!(text.starts_with("unavailable: the call was canceled"), "{text}");
    });
    eventually("the command is killed", || !sleeps("86388"));
    // The sandbox still works.
    let call = json!({ "id": 2, "method": "tools/call", "params": shell("echo $((6 * 7))") });
    let answer = client.ask(SEND, &message(&id, call));
    assert_eq!(answer[1]["result"]["structuredContent"]["stdout"], "42\n", "{answer}");
}
