//! The journal of tool calls, in the object of a session.

use koze_tests::eventually;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::host::{Host, TOKEN};

fn page(host: &Host, session: &str, query: &str) -> Value {
    let answer = host.ask("GET", &format!("/sessions/{session}/log{query}"), b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Waits until a session has as many calls. They are written after the response.
fn wait_for_calls(host: &Host, session: &str, number: usize) -> Vec<Value> {
    let count = || page(host, session, "?limit=1000")["calls"].as_array().expect("a list").len();
    eventually("the calls are recorded", || count() >= number);
    let page = page(host, session, "?limit=1000");
    let calls = page["calls"].as_array().expect("a list").clone();
    assert_eq!(calls.len(), number, "{page:#}");
    calls
}

#[test]
fn calls_are_recorded_after_the_response() {
    let persist = TempDir::new().expect("a temporary directory");
    let host = Host::with_registry(&persist);
    assert_eq!(page(&host, "s", ""), json!({ "calls": [], "next": 0 }));
    host.shell("s", "echo");
    wait_for_calls(&host, "s", 1);
    host.call("s", "read_file", &json!({ "path": "missing", "sandbox": "none" }));
    wait_for_calls(&host, "s", 2);
    host.call("s", "nope", &json!({}));
    let calls = wait_for_calls(&host, "s", 3);
    let part = |call: &Value| {
        let keys = ["id", "session", "family", "tool", "sandboxes", "input", "outcome", "exit_code"];
        json!(keys.map(|key| &call[key]))
    };
    assert_eq!(
        calls.iter().map(part).collect::<Vec<_>>(),
        [
            json!([1, "s", "agent", "shell", ["default"], { "command": "echo" }, "ok", 0]),
            json!([
                2, "s", "agent", "read_file", ["none"], { "path": "missing", "sandbox": "none" },
                "not_found", null
            ]),
            json!([3, "s", null, "nope", null, {}, "unknown_tool", null]),
        ]
    );
    assert!(calls[0]["client"].as_str().is_some_and(|client| client.starts_with("ureq/")), "{}", calls[0]);
    assert_eq!(page(&host, "other", "")["calls"], json!([]));
    drop(host);
    let host = Host::with_registry(&persist);
    assert_eq!(wait_for_calls(&host, "s", 3), calls, "they outlive a restart");
}

#[test]
fn pages_follow_each_other() {
    let persist = TempDir::new().expect("a temporary directory");
    let host = Host::with_registry(&persist);
    for number in 1..=5 {
        host.shell("s", &format!("echo {number}"));
        wait_for_calls(&host, "s", number);
    }
    let ids = |query: &str| {
        let page = page(&host, "s", query);
        let ids: Vec<&Value> =
            page["calls"].as_array().expect("a list").iter().map(|call| &call["id"]).collect();
        json!([ids, page["next"]])
    };
    assert_eq!(ids("?limit=2"), json!([[4, 5], 5]));
    assert_eq!(ids("?since=0&limit=2"), json!([[1, 2], 2]));
    assert_eq!(ids("?since=2&limit=2"), json!([[3, 4], 4]));
    assert_eq!(ids("?since=5"), json!([[], 5]));
    for query in ["?since=x", "?limit=0", "?limit=1001"] {
        let answer = host.ask("GET", &format!("/sessions/s/log{query}"), b"");
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!("invalid_input")));
    }
}

#[test]
fn the_route_needs_a_token_and_the_registry() {
    let host = Host::start();
    assert_eq!(host.send("GET", "/sessions/s/log", &[], b"").status, 401);
    let other = [("authorization", "Bearer another token")];
    assert_eq!(host.send("GET", "/sessions/s/log", &other, b"").status, 401);
    host.shell("s", "echo");
    let answer = host.ask("GET", "/sessions/s/log", b"");
    let error = &answer.json()["error"];
    assert_eq!((answer.status, &error["code"]), (501, &json!("unsupported")));
    let message = error["message"].as_str().expect("a text");
    assert!(message.contains("set `registry = true`"), "{message}");
    assert!(!message.contains(TOKEN));
    assert_eq!(host.ask("POST", "/sessions/s/log", b"").status, 405);
}
