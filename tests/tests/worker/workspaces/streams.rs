//! Tool calls as events, and progress notifications, on every backend.

use std::process::Output;

use koze_tests::conformance::http::{Notices, Place, check_events};
use koze_tests::{node_command, root, run};
use serde_json::{Value, json};

use super::project::{Backend, serve, worker};
use crate::dev::run::Dev;
use crate::project::TIMEOUT;
use crate::served::{Host, TOKEN};

#[test]
fn native_calls_are_streamed() {
    let worker = worker(Backend::Native);
    let host = serve(&worker, Backend::Native);
    check(host.url(), Notices::Resets);
    progress(host.url());
    without_events(&host);
}

#[test]
fn sdk_calls_are_streamed() {
    let worker = worker(Backend::Sdk);
    let host = serve(&worker, Backend::Sdk);
    check(host.url(), Notices::Resets);
    progress(host.url());
}

#[test]
fn dev_calls_are_streamed() {
    let worker = worker(Backend::Sdk);
    let dev = Dev::start(&worker);
    check(&dev.url, Notices::Readers);
    progress(&dev.url);
}

fn check(url: &str, notices: Notices) {
    check_events(&Place { url, token: TOKEN, session: "events", notices });
}

/// The official clients receive what a command prints while it runs. See `scenes.mjs` of the tests of `koze mcp`.
fn progress(url: &str) {
    for sdk in ["1", "2"] {
        let url = format!("{}/mcp?session=progress-{sdk}", url.trim_end_matches('/'));
        let server = json!({ "url": url, "token": TOKEN }).to_string();
        let mut node = node_command("node");
        node.arg(root().join("tests/tests/mcp/scenes.mjs")).args([
            "output",
            sdk,
            &server,
            "workspace__open__run",
        ]);
        let Output { status, stdout, stderr } = run(node, TIMEOUT);
        let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(status.success(), "{sdk}\n{stdout}{stderr}");
        let told: Value = serde_json::from_str(stdout.lines().last().unwrap_or_default()).expect("JSON");
        let seen = told["seen"]["seen"].as_array().expect("a list");
        let values: Vec<f64> = seen.iter().map(|one| one["progress"].as_f64().expect("a number")).collect();
        assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
        let texts = seen.iter().filter_map(|one| one["message"].as_str());
        let text: String = texts.filter(|text| !text.starts_with("running")).collect();
        assert!((text.starts_with("äe") || text.starts_with("eä")) && text.ends_with("done"), "{told}");
        let result = &told["seen"]["result"];
        let content = &result["structuredContent"];
        assert_ne!(result["isError"], true, "{told}");
        assert_eq!([&content["stdout"], &content["stderr"]], [&json!("ädone"), &json!("e")], "{told}");
    }
}

/// The response is one JSON document unless the client accepts events and asks for progress. Otherwise it ends with the
/// same document.
fn without_events(host: &Host) {
    let call = |meta: Value, accept: &str| {
        let arguments = json!({ "path": "none" });
        let params = json!({ "name": "workspace__box__ls", "arguments": arguments, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params });
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", bearer.as_str()), ("accept", accept)];
        let answer = host.send("POST", "/mcp", &headers, body.to_string().as_bytes());
        let kind = answer.header("content-type").unwrap_or_default().to_owned();
        (answer.status, kind, answer.body)
    };
    let both = "application/json, text/event-stream";
    let plain = call(json!({}), both);
    assert_eq!((plain.0, plain.1.as_str()), (200, "application/json"));
    assert!(plain.2.contains("not_found: "), "{}", plain.2);
    for meta in [json!({ "progressToken": null }), json!({ "progressToken": {} })] {
        assert_eq!(call(meta, both), plain);
    }
    assert_eq!(call(json!({ "progressToken": 7 }), "application/json"), plain);
    let (status, kind, body) = call(json!({ "progressToken": 7 }), both);
    assert_eq!((status, kind.as_str()), (200, "text/event-stream"));
    assert!(body.ends_with(&format!("event: message\ndata: {}\n\n", plain.2)), "{body}");
}
