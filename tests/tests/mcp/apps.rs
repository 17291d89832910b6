//! The timeline in a chat: clients that show pages of servers get one, and a tool for it. Others get neither.

use koze_tests::{Sandboxes, eventually};
use serde_json::{Value, json};

use crate::http;
use crate::lines::Client;
use crate::server::{Http, project};

const EXTENSION: &str = "io.modelcontextprotocol/ui";
const TOOL: &str = "session_timeline";
const URI: &str = "ui://koze/timeline";
const MEDIA_TYPE: &str = "text/html;profile=mcp-app";

fn capabilities() -> Value {
    json!({ "extensions": { EXTENSION: { "mimeTypes": [MEDIA_TYPE] } } })
}

fn start(host: &Sandboxes) -> Client {
    Client::with_capabilities(host, &capabilities())
}

/// Returns the whole answer to a request.
fn ask_once(client: &mut Client, method: &str, params: &Value) -> Value {
    let request = client.request(method, params);
    client.say(&request);
    client.read_answer()
}

/// Calls the tool.
fn timeline(client: &mut Client, input: &Value) -> Value {
    client.ask("tools/call", &json!({ "name": TOOL, "arguments": input }))
}

/// Waits until the journal has recorded so many calls of the session.
fn wait_for_calls(host: &Sandboxes, calls: usize) {
    eventually("the calls are recorded", || {
        host.koze(&["log", "--session", "default", "--json"]).stdout.lines().count() == calls
    });
}

/// Waits for the calls, and returns what the page gets.
fn timeline_of(host: &Sandboxes, client: &mut Client, calls: usize) -> Value {
    wait_for_calls(host, calls);
    timeline(client, &json!({}))["structuredContent"].clone()
}

fn commands(page: &Value) -> Vec<&str> {
    let calls = page["calls"].as_array().expect("a list");
    calls.iter().map(|call| call["input"]["command"].as_str().expect("a command")).collect()
}

#[test]
fn a_client_that_shows_pages_gets_the_timeline() {
    let host = project();
    let mut client = start(&host);
    let offered = &client.introduction["capabilities"];
    assert_eq!(offered["resources"], json!({}), "{offered}");
    assert_eq!(offered["extensions"][EXTENSION], json!({}), "{offered}");

    let tools = client.ask("tools/list", &json!({}));
    let tool = tools["tools"].as_array().expect("a list").last().expect("a tool").clone();
    assert_eq!(tool["name"], TOOL);
    assert_eq!(tool["_meta"]["ui"], json!({ "resourceUri": URI, "visibility": ["model", "app"] }));
    assert_eq!(tool["annotations"]["readOnlyHint"], true);

    let listed = client.ask("resources/list", &json!({}));
    assert_eq!(
        (&listed["resources"][0]["uri"], &listed["resources"][0]["mimeType"]),
        (&json!(URI), &json!(MEDIA_TYPE))
    );
    let read = client.ask("resources/read", &json!({ "uri": URI }));
    let page = &read["contents"][0];
    assert_eq!((&page["uri"], &page["mimeType"]), (&json!(URI), &json!(MEDIA_TYPE)));
    assert!(page["text"].as_str().is_some_and(|text| text.starts_with("<!doctype html>")), "{page}");
    let missing = ask_once(&mut client, "resources/read", &json!({ "uri": "ui://koze/other" }));
    assert!(missing["error"]["message"].as_str().is_some_and(|message| message.contains(URI)), "{missing}");
    client.end();
}

#[test]
fn the_tool_returns_the_calls_of_the_session() {
    let host = project();
    let mut client = start(&host);
    let empty = timeline(&mut client, &json!({}));
    assert_eq!(
        empty["structuredContent"],
        json!({ "session": "default", "calls": [], "next": 0, "has_more": false, "is_recording": true }),
        "{empty}"
    );
    client.shell("echo 1");
    client.shell("exit 3");
    let other = host.koze(&["call", "--session", "other", "shell", r#"{"command": "echo other"}"#]);
    assert_eq!(other.code, 0, "{other:?}");
    let page = timeline_of(&host, &mut client, 2);
    assert_eq!(commands(&page), ["echo 1", "exit 3"], "another session has its own");
    assert_eq!(page["calls"][1]["exit_code"], 3);
    let result = timeline(&mut client, &json!({}));
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert_eq!(text, "The timeline shows calls to the user: 2, of which 1 failed.");

    // What is new, by the cursor.
    let next = page["next"].clone();
    assert_eq!(timeline(&mut client, &json!({ "since": next }))["structuredContent"]["calls"], json!([]));
    client.shell("echo 3");
    wait_for_calls(&host, 3);
    let fresh = timeline(&mut client, &json!({ "since": next }))["structuredContent"].clone();
    assert_eq!((commands(&fresh), &fresh["has_more"]), (vec!["echo 3"], &json!(false)));

    for invalid in [json!({ "since": "x" }), json!({ "since": -1 }), json!({ "until": 1 })] {
        let refused = timeline(&mut client, &invalid);
        assert_eq!(refused["isError"], true, "{invalid}: {refused}");
        assert!(
            refused["content"][0]["text"].as_str().is_some_and(|text| text.starts_with("invalid_input: "))
        );
    }
    // Looking is not recorded.
    client.shell("echo 4");
    wait_for_calls(&host, 4);
    let log = host.koze(&["log", "--json"]).stdout;
    assert!(log.contains("echo 4") && !log.contains(TOOL), "{log}");
    client.end();
}

#[test]
fn it_says_that_calls_are_not_recorded() {
    let host = project();
    let cargo = host.read("Cargo.toml");
    host.write("Cargo.toml", format!("{cargo}\n[package.metadata.koze.journal]\nenabled = false\n"));
    let mut client = start(&host);
    client.shell("echo 1");
    let result = timeline(&mut client, &json!({}));
    assert_eq!(result["structuredContent"]["is_recording"], false, "{result}");
    assert!(
        result["content"][0]["text"].as_str().is_some_and(|text| text.contains("`enabled = false`")),
        "{result}"
    );
    client.end();
}

#[test]
fn a_page_is_bounded() {
    let host = project();
    let mut client = start(&host);
    let write =
        |n: usize| json!({ "name": "write_file", "arguments": { "path": "f", "content": n.to_string() } });
    for n in 0..52 {
        client.ask("tools/call", &write(n));
    }
    wait_for_calls(&host, 52);
    let newest = timeline(&mut client, &json!({}))["structuredContent"].clone();
    let ids = |page: &Value| -> Vec<u64> {
        page["calls"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|call| call["id"].as_u64().expect("an ID"))
            .collect()
    };
    assert_eq!((ids(&newest), &newest["has_more"]), ((3..=52).collect(), &json!(false)));
    let first = timeline(&mut client, &json!({ "since": 0 }))["structuredContent"].clone();
    assert_eq!((ids(&first), &first["has_more"]), ((1..=50).collect(), &json!(true)));
    let rest = timeline(&mut client, &json!({ "since": first["next"] }))["structuredContent"].clone();
    assert_eq!((ids(&rest), &rest["has_more"]), (vec![51, 52], &json!(false)));
    client.end();
}

#[test]
fn other_clients_see_nothing_of_it() {
    let host = project();
    let mut with = start(&host);
    let mut tools = with.ask("tools/list", &json!({}));
    tools["tools"].as_array_mut().expect("a list").pop();
    with.end();
    // Neither do clients that show pages of other types.
    let other = json!({ "extensions": { EXTENSION: { "mimeTypes": ["text/html"] } } });
    for capabilities in [json!({}), other] {
        let mut client = Client::with_capabilities(&host, &capabilities);
        let offered = &client.introduction["capabilities"];
        assert_eq!((&offered["resources"], &offered["extensions"][EXTENSION]), (&Value::Null, &Value::Null));
        let request = client.request("tools/list", &json!({}));
        client.say(&request);
        assert_eq!(client.read_answer()["result"].to_string(), tools.to_string());
        assert_eq!(client.ask("resources/list", &json!({})), json!({ "resources": [] }));
        let read = ask_once(&mut client, "resources/read", &json!({ "uri": URI }));
        assert_eq!(read["error"]["code"], -32601, "{read}");
        let called = ask_once(&mut client, "tools/call", &json!({ "name": TOOL, "arguments": {} }));
        assert_eq!(called["error"]["code"], -32602, "{called}");
        client.end();
    }
}

#[test]
fn over_http_a_connection_says_what_its_client_shows() {
    let host = project();
    let server = Http::start(&host, &[]);
    let list = |capabilities: &Value| {
        let about = json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": { "name": "t", "version": "1" } });
        let post = |headers: &str, message: &Value| {
            let headers = format!("Host: localhost\r\n{}{}{headers}", http::bearer(&server), http::JSON);
            http::send(&server, "POST /mcp", &headers, message.to_string().as_bytes()).1
        };
        let begun = post("", &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about }));
        let id = begun
            .lines()
            .find(|line| line.to_lowercase().starts_with("mcp-session-id: "))
            .expect("a session");
        let id = format!("{id}\r\n");
        post(&id, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        (
            begun.contains(EXTENSION),
            post(&id, &json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" })).contains(TOOL),
        )
    };
    assert_eq!((list(&capabilities()), list(&json!({}))), ((true, true), (false, false)));
}

#[test]
fn over_http_each_request_says_what_its_client_shows() {
    let host = project();
    let server = Http::start(&host, &[]);
    let ask =
        |capabilities: &Value, method: &str, params: Value| http::ask(&server, capabilities, method, params);
    let (with, without) = (capabilities(), json!({}));
    let offered = |capabilities| {
        let info = ask(capabilities, "server/discover", json!({}))["result"]["capabilities"].clone();
        (info["resources"].is_object(), info["extensions"][EXTENSION].is_object())
    };
    assert_eq!((offered(&with), offered(&without)), ((true, true), (false, false)));
    let read = |capabilities| ask(capabilities, "resources/read", json!({ "uri": URI }));
    assert_eq!(read(&with)["result"]["contents"][0]["mimeType"], MEDIA_TYPE);
    assert_eq!(read(&without)["error"]["code"], -32601);
    let called = |capabilities| ask(capabilities, "tools/call", json!({ "name": TOOL, "arguments": {} }));
    assert_eq!(called(&with)["result"]["structuredContent"]["session"], "default");
    assert!(called(&without)["error"].is_object());
    let names = |capabilities| {
        let tools = ask(capabilities, "tools/list", json!({}))["result"]["tools"].clone();
        tools.as_array().expect("a list").iter().filter(|tool| tool["name"] == TOOL).count()
    };
    assert_eq!((names(&with), names(&without)), (1, 0));
}
