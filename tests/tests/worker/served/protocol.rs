//! The Model Context Protocol on the Worker, with the official clients and by hand.

use koze_tests::{node_command, root, run};
use serde_json::{Value, json};

use super::host::{Host, TOKEN};
use crate::project::TIMEOUT;

/// Returns what a client of this SDK version receives. See `scenes.mjs` of the tests of `koze mcp`.
fn play(host: &Host, sdk: &str, path: &str) -> Value {
    let server = json!({ "url": format!("{}{path}", host.url()), "token": TOKEN }).to_string();
    let mut node = node_command("node");
    node.arg(root().join("tests/tests/mcp/scenes.mjs")).args(["tools", sdk, &server]);
    let output = run(node, TIMEOUT);
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{sdk}\n{stdout}{stderr}");
    serde_json::from_str(stdout.lines().last().unwrap_or_default()).expect("JSON")
}

#[test]
fn the_official_clients_use_the_tools() {
    let host = Host::start();
    let listed = host.ask("GET", "/tools", b"").json();
    for (sdk, version) in [("1", Value::Null), ("2", json!("2026-07-28"))] {
        let told = play(&host, sdk, &format!("mcp?session=of-{sdk}"));
        let seen = &told["seen"];
        assert_eq!((&seen["server"]["name"], &seen["version"]), (&json!("koze"), &version), "{seen}");
        assert!(seen["instructions"].as_str().is_some_and(|text| text.contains("sandbox")), "{seen}");
        // With hints about their effects.
        let mut tools = seen["tools"].clone();
        for tool in tools.as_array_mut().expect("a list") {
            let hints = tool.as_object_mut().and_then(|tool| tool.remove("annotations"));
            assert!(hints.is_some_and(|hints| hints["readOnlyHint"].is_boolean()), "{tool}");
        }
        assert_eq!(tools, listed, "{sdk}");
        let is = |call: &str, failed: bool, expected: &Value| {
            let result = &seen[call];
            assert_eq!(result["isError"] == true, failed, "{sdk} {call}: {result}");
            match expected {
                Value::Object(_) => {
                    assert_eq!(&result["structuredContent"], expected, "{sdk} {call}: {result}");
                }
                _ => assert_eq!(&result["content"][0]["text"], expected, "{sdk} {call}: {result}"),
            }
        };
        let stdout = "out; echo err >&2\n";
        is("good", false, &json!({ "stdout": stdout, "stderr": "", "exit_code": 0 }));
        is("failed", true, &json!({ "stdout": "", "stderr": "", "exit_code": 3 }));
        is("created", false, &json!({ "sandbox": "py", "created": true }));
        is("written", false, &json!({ "ok": true, "size": 4 }));
        is("read", false, &json!({ "content": "\u{0}ä\n", "size": 4 }));
        is("missing", true, &json!("not_found: /home/user/none does not exist"));
        let unknown = &seen["unknown"];
        assert!(
            unknown["code"] == -32602
                && unknown["message"].as_str().is_some_and(|text| text.contains("unknown_tool: ")),
            "{unknown}"
        );
        // The session in the URL is an ordinary one.
        let read = host.call(&format!("of-{sdk}"), "read_file", &json!({ "sandbox": "py", "path": "a" }));
        assert_eq!(read.1["content"], "\u{0}ä\n");
    }
}

#[test]
fn messages_by_hand() {
    let host = Host::start();
    let bearer = format!("Bearer {TOKEN}");
    let send = |headers: &[(&str, &str)], body: &str| {
        let headers = [&[("authorization", bearer.as_str())], headers].concat();
        host.send("POST", "/mcp", &headers, body.as_bytes())
    };
    let request = |method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string()
    };
    let write = |content: &str| {
        request(
            "tools/call",
            json!({ "name": "write_file", "arguments": { "path": "f", "content": content } }),
        )
    };
    let read = request("tools/call", json!({ "name": "read_file", "arguments": { "path": "f" } }));
    // The default session is `default`; a header selects another one.
    assert_eq!(send(&[], &write("of default")).json()["result"]["isError"], false);
    assert_eq!(send(&[("koze-session", "other")], &write("of other")).json()["result"]["isError"], false);
    let content = |headers: &[(&str, &str)]| {
        send(headers, &read).json()["result"]["structuredContent"]["content"].clone()
    };
    assert_eq!(
        (content(&[]), content(&[("koze-session", "other")])),
        (json!("of default"), json!("of other"))
    );
    assert_eq!(host.call("default", "read_file", &json!({ "path": "f" })).1["content"], "of default");

    let notification = send(&[], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert_eq!((notification.status, notification.body.as_str()), (202, ""));
    for (body, status, code) in [
        ("{", 400, -32700),
        ("[]", 400, -32600),
        ("{}", 400, -32600),
        (request("resources/list", json!({})).as_str(), 200, -32601),
        (request("no/such", json!({})).as_str(), 200, -32601),
        (request("tools/call", json!({ "name": "shell", "arguments": "{}" })).as_str(), 200, -32602),
        (request("tools/call", json!({ "name": "bash", "arguments": {} })).as_str(), 200, -32602),
    ] {
        let answer = send(&[], body);
        assert_eq!(
            (answer.status, &answer.json()["error"]["code"]),
            (status, &json!(code)),
            "{body}: {answer:?}"
        );
    }
    // A duplicate key is ambiguous.
    let twice = read.replace("\"path\":", "\"path\":\"other\",\"path\":");
    assert_ne!(twice, read);
    let result = send(&[], &twice).json()["result"].clone();
    let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert!(
        result["isError"] == true && text.starts_with("invalid_input: duplicate key `path` in an object"),
        "{result}"
    );
    let wrong = send(&[("mcp-protocol-version", "1999-01-01")], &read);
    assert!(wrong.status == 400 && wrong.refusal().2.contains("2025-06-18"), "{wrong:?}");
    assert_eq!(send(&[("koze-session", "")], &read).status, 400, "no session is named so");
    // There is no stream to listen to, and no session to end.
    for method in ["GET", "DELETE"] {
        let answer = host.ask(method, "/mcp", b"");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{method}");
    }
    assert_eq!(host.send("POST", "/mcp", &[], read.as_bytes()).status, 401);
}
