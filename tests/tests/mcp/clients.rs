//! The official SDKs for TypeScript, in both versions and over both transports.

use koze_tests::{Sandboxes, node_command, root, run};
use serde_json::{Value, json};

use crate::server::{Http, TIMEOUT, project, stdio};

/// The versions of the SDK.
const SDKS: [&str; 2] = ["1", "2"];

/// Runs a scene of `scenes.mjs`, and returns what the client received. Unexpected output is an error.
pub(crate) fn play(scene: &str, sdk: &str, server: &Value, more: &[&str]) -> Value {
    let mut node = node_command("node");
    node.arg(root().join("tests/tests/mcp/scenes.mjs")).args([scene, sdk, &server.to_string()]).args(more);
    let output = run(node, TIMEOUT);
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{scene} {sdk} {server}\n{stdout}{stderr}");
    let told: Value = serde_json::from_str(stdout.lines().last().unwrap_or_default()).expect("JSON");
    told["seen"].clone()
}

/// Runs a scene with every SDK over every transport, each in its own session.
fn everywhere(host: &Sandboxes, scene: &str, more: &[&str], check: impl Fn(&Value, &str)) {
    for sdk in SDKS {
        let (on_stdio, over_http) = (format!("stdio-{sdk}"), format!("http-{sdk}"));
        let mut server = stdio(host);
        server["args"] = json!(["mcp", "--session", on_stdio]);
        check(&play(scene, sdk, &server, more), &on_stdio);
        let server = Http::start(host, &["--session", &over_http]);
        check(&play(scene, sdk, &server.place(), more), &over_http);
        assert_eq!(server.end(), "", "{over_http}");
    }
}

/// Returns whether a call failed, and its result, which must be the same as text and as structured content.
fn result(seen: &Value) -> (bool, Value) {
    let text = seen["content"][0]["text"].as_str().expect("a text");
    let failed = seen["isError"] == true;
    match seen.get("structuredContent") {
        Some(structured) => {
            assert_eq!(serde_json::from_str::<Value>(text).ok().as_ref(), Some(structured));
            (failed, structured.clone())
        }
        None => (failed, json!(text)),
    }
}

/// Returns tools without their hints about effects, which every tool has.
pub(crate) fn without_hints(mut tools: Value) -> Value {
    for tool in tools.as_array_mut().expect("a list") {
        let hints = tool.as_object_mut().and_then(|tool| tool.remove("annotations"));
        let reading = ["read_file", "glob", "sandbox_list", "process_list", "process_output"];
        let reads = reading.contains(&tool["name"].as_str().expect("a name"));
        assert_eq!(hints.map(|hints| hints["readOnlyHint"].clone()), Some(json!(reads)), "{tool}");
    }
    tools
}

#[test]
fn tools_and_results() {
    let host = project();
    let listed = host.koze(&["tools"]);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(12));
    everywhere(&host, "tools", &[], |seen, place| {
        assert_eq!(seen["server"]["name"], "koze", "{place}");
        assert_eq!(without_hints(seen["tools"].clone()), listed, "{place}");
        assert!(seen["capabilities"]["tools"].is_object(), "{place}: {seen}");
        assert!(seen["instructions"].as_str().is_some_and(|text| text.contains("sandbox")), "{place}");
        let is = |call: &str, expected: (bool, Value)| {
            assert_eq!(result(&seen[call]), expected, "{place}: {call}");
        };
        is("good", (false, json!({ "stdout": "out\n", "stderr": "err\n", "exit_code": 0 })));
        is("failed", (true, json!({ "stdout": "", "stderr": "", "exit_code": 3 })));
        let (failed, created) = result(&seen["created"]);
        assert_eq!(
            (failed, &created["sandbox"], &created["created"]),
            (false, &json!("py"), &json!(true)),
            "{place}"
        );
        is("written", (false, json!({ "ok": true, "size": 4 })));
        is("read", (false, json!({ "content": "\u{0}ä\n", "size": 4 })));
        is("missing", (true, json!("not_found: /home/user/none does not exist")));
        let unknown = &seen["unknown"];
        assert!(
            unknown["code"] == -32602
                && unknown["message"].as_str().is_some_and(|text| text.contains("unknown_tool: ")),
            "{place}: {unknown}"
        );
        let (failed, text) = result(&seen["wrong"]);
        assert!(failed && text.as_str().is_some_and(|text| text.starts_with("invalid_input: ")), "{text}");
    });
}

#[test]
fn a_long_command_shows_progress() {
    everywhere(&project(), "progress", &[], |seen, place| {
        let progress = |index: usize| seen["seen"][index]["progress"].as_f64().expect("a number");
        assert!(progress(0) < progress(1), "{place}: {seen}");
        assert!(
            seen["seen"][0]["message"].as_str().is_some_and(|text| text.starts_with("running for ")),
            "{seen}"
        );
        assert_eq!(result(&seen["result"]).1["stdout"], "done\n", "{place}");
        assert_eq!(result(&seen["silent"]).1["exit_code"], 0, "{place}");
    });
}

/// A client that asked for progress receives what a command prints while it runs.
#[test]
fn a_command_shows_its_output() {
    let host = project();
    host.write(
        "src/server/box.sandbox.rs",
        "use koze::prelude::*;\n\n#[sandbox(tools = [\"workspace\"], workspace(shell))]\npub struct BoxSandbox;\n",
    );
    for (sdk, (family, tool)) in SDKS.iter().zip([("workspace", "workspace__box__run"), ("agent", "shell")]) {
        let (on_stdio, over_http) = (format!("output-stdio-{sdk}"), format!("output-http-{sdk}"));
        let mut server = stdio(&host);
        server["args"] = json!(["mcp", "--tools", family, "--session", on_stdio]);
        shows_output(&play("output", sdk, &server, &[tool]), &on_stdio);
        let server = Http::start(&host, &["--tools", family, "--session", &over_http]);
        shows_output(&play("output", sdk, &server.place(), &[tool]), &over_http);
        assert_eq!(server.end(), "", "{over_http}");
    }
}

fn shows_output(seen: &Value, place: &str) {
    let told = seen["seen"].as_array().expect("a list");
    let values: Vec<f64> = told.iter().map(|one| one["progress"].as_f64().expect("a number")).collect();
    assert!(values.is_sorted_by(|a, b| a < b), "{place}: {values:?}");
    // Before the first output, the client may be told that the call is running.
    let output =
        told.iter().filter_map(|one| one["message"].as_str()).filter(|text| !text.starts_with("running"));
    let text: String = output.collect();
    assert!(text.starts_with("äe") || text.starts_with("eä"), "{place}: {seen}");
    let (failed, result) = result(&seen["result"]);
    assert!(!failed, "{place}: {seen}");
    assert_eq!((&result["stdout"], &result["stderr"]), (&json!("ädone"), &json!("e")), "{place}: {seen}");
    assert!(text.ends_with("done"), "{place}: {seen}");
}

#[test]
fn a_cancelled_call_kills_its_command() {
    let seconds = format!("7101.{}", std::process::id());
    everywhere(&project(), "cancel", &[&seconds], |seen, place| {
        assert!(
            seen["error"].as_str().is_some_and(|error| error.contains("changed their mind")),
            "{place}: {seen}"
        );
        assert_eq!(seen["files"], "", "{place}");
    });
}

#[test]
fn two_calls_run_at_once() {
    everywhere(&project(), "overlap", &[], |seen, place| {
        assert_eq!(*seen, json!(["a\n", "b\n"]), "{place}");
    });
}

#[test]
fn two_clients_share_a_session() {
    everywhere(&project(), "two", &[], |seen, place| {
        assert_eq!(*seen, json!({ "seen": "shared\nalive\n", "after": "alive\n" }), "{place}");
    });
}

#[test]
fn megabytes_are_transferred() {
    everywhere(&project(), "large", &[], |seen, place| {
        assert_eq!(seen["written"], json!({ "ok": true, "size": 2 << 20 }), "{place}");
        assert_eq!((&seen["same"], &seen["after"]), (&json!(true), &json!("after\n")), "{place}");
        // A message that no client would accept is an error, and does not end the connection.
        let (failed, text) = result(&seen["zeros"]);
        assert!(failed && text.as_str().is_some_and(|text| text.starts_with("too_large: ")), "{place}");
    });
}

#[test]
fn a_killed_server_leaves_the_files() {
    let host = project();
    for sdk in SDKS {
        let seen = play("killed", sdk, &stdio(&host), &[]);
        assert_eq!(seen, json!({ "lost": "gone", "file": "kept\n" }), "{sdk}");
    }
}

#[test]
fn a_killed_http_server_leaves_the_files() {
    let host = project();
    let first = Http::start(&host, &[]);
    assert_eq!(play("two", "2", &first.place(), &[])["after"], "alive\n");
    first.end();
    // Another server and `koze call` find the files.
    assert_eq!(play("tools", "1", &Http::start(&host, &[]).place(), &[])["good"]["isError"], false);
    assert_eq!(host.shell("cat file; kill -0 $(cat pid) && echo alive"), "shared\nalive\n");
}

/// Speaks the protocol by hand: every line of standard output is a message, and independent requests are answered in
/// order.
#[test]
fn standard_output_contains_only_the_protocol() {
    let host = project();
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "hand", "version": "1" } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "shell", "arguments": { "command": "echo '{}'; echo no >&2" } } }),
    ];
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    host.write("input", lines.concat());
    let koze = host.command(&["mcp"]);
    let mut shell = std::process::Command::new("sh");
    host.write("output", "");
    // Keep standard input open until both answers have arrived.
    let script = "(cat input; until test \"$(grep -c '\"id\":' output)\" = 2; do sleep 0.05; done) | \"$0\" \"$@\" > output";
    shell.args(["-c", script]).arg(koze.get_program()).args(koze.get_args()).envs(host.env());
    let ended = host.run(shell);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let output = host.read("output");
    let ids: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a message"))
        .map(|message| message["id"].clone())
        .collect();
    assert_eq!(ids, [json!(1), json!(2)], "{output}");
}
