//! The route `tools` of `koze mcp --http`.

use koze_tests::conformance::WORKSPACES;
use koze_tests::conformance::http::{Notices, Place, check_events};

use crate::http::{bearer, send};
use crate::server::{Http, project};

#[test]
fn calls_are_streamed() {
    let host = project();
    for (name, more) in WORKSPACES {
        let comma = if more.is_empty() { "" } else { ", " };
        let class = format!("{}{}Sandbox", name[..1].to_uppercase(), &name[1..]);
        let attribute = format!("tools = [\"workspace\"], workspace(name = \"{name}\"{comma}{more})");
        let text = format!("use koze::prelude::*;\n\n#[sandbox({attribute})]\npub struct {class};\n");
        host.write(format!("src/server/{name}.sandbox.rs"), text);
    }
    let server = Http::start(&host, &["--tools", "workspace", "--session", "a b"]);
    let url = server.url.trim_end_matches("/mcp");
    check_events(&Place { url, token: &server.token, session: "a%20b", notices: Notices::All });
    assert_eq!(server.end(), "");
}

#[test]
fn calls_are_answered() {
    let host = project();
    let server = Http::start(&host, &[]);
    let ask = |request: &str, headers: &str, body: &str| {
        let all = format!("Host: localhost\r\n{}{headers}", bearer(&server));
        let (status, answer) = send(&server, request, &all, body.as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (status, head.to_lowercase(), body.to_owned())
    };
    let at = "POST /sessions/default/tools";
    let (status, head, body) = ask(&format!("{at}/shell"), "", "{\"command\":\"echo ü\"}");
    assert_eq!(status, 200, "{body}");
    assert!(head.contains("content-type: application/json"), "{head}");
    let content = "{\\\"stdout\\\":\\\"ü\\\\n\\\",\\\"stderr\\\":\\\"\\\",\\\"exit_code\\\":0}";
    assert_eq!(body, format!("{{\"content\":\"{content}\",\"isError\":false}}"));
    for (request, input, status, part) in [
        (format!("{at}/shell"), "{\"command\":\"a\",\"command\":\"b\"}", 200, "duplicate key `command`"),
        (format!("{at}/none"), "{}", 200, "unknown_tool: "),
        (format!("{at}/shell"), "[]", 200, "invalid_input: "),
        (format!("{at}/shell"), "{", 400, "not valid JSON"),
        (format!("{at}/shell"), "", 400, "not valid JSON"),
        ("POST /sessions/other/tools/shell".to_owned(), "{}", 404, "another session"),
        ("POST /sessions/%FF/tools/shell".to_owned(), "{}", 400, "UTF-8"),
        (
            "GET /sessions/default/tools/shell".to_owned(),
            "",
            405,
            r#""code":"method_not_allowed","message":"this takes POST""#,
        ),
        ("POST /sessions/default/tools".to_owned(), "{}", 404, "lists the routes"),
        ("POST /sessions/default/tools/shell/x".to_owned(), "{}", 404, "lists the routes"),
    ] {
        for accept in ["", "Accept: text/event-stream\r\n"] {
            let (told, _, body) = ask(&request, accept, input);
            assert!(told == status && body.contains(part), "{request} {input}: {told} {body}");
        }
    }
    assert_eq!(send(&server, &format!("{at}/shell"), "Host: localhost\r\n", b"{}").0, 401);
}
