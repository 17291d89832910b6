//! Hostile requests: each is refused, and reveals nothing that is not the client's.

use koze_tests::root;
use serde_json::{Value, json};

use super::host::{Host, TOKEN};

/// The body of a call with a visible effect.
const CALL: &str = "{\"command\":\"echo done\"}";

/// Two tenants and their tokens.
const TENANTS: [(&str, &str); 2] = [("a", "the token of tenant a"), ("b", "the token of tenant b")];

fn tenants() -> Host {
    let tokens = json!({ "a": TENANTS[0].1, "b": TENANTS[1].1 }).to_string();
    Host::with(&json!({ "bindings": { "KOZE_TOKENS": tokens } }))
}

/// Sends a raw request, checks that the response reveals nothing, and returns it.
#[track_caller]
fn answer(host: &Host, head: &str, body: &[u8]) -> String {
    let head = format!("{}\r\nconnection: close\r\n\r\n", head.trim_end());
    let answer = host.exchange(&[head.as_bytes(), body].concat());
    silent(&answer, &head);
    answer
}

/// Sends a raw request, and returns the status.
#[track_caller]
fn status(host: &Host, head: &str, body: &[u8]) -> u16 {
    let answer = answer(host, head, body);
    let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    status.unwrap_or_else(|| panic!("{head}: {answer:?}"))
}

/// Checks that a response contains no secret, no path of this machine, no internals of the Worker, and no result of a
/// call.
#[track_caller]
fn silent(answer: &str, sent: &str) {
    let here = root().display().to_string();
    let tokens = TENANTS.map(|(_, token)| token);
    let signs =
        ["panicked", ".rs:", ".mjs:", "wasm", "stack", "\n    at ", "/rustc/", "RuntimeError", "done\\"];
    for sign in [&signs[..], &tokens, &[TOKEN, &here]].concat() {
        assert!(!answer.contains(sign), "{sent} tells `{sign}`: {answer}");
    }
}

/// Returns the head of a call, with these lines at its end.
fn post(target: &str, lines: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nhost: agents.example\r\ncontent-length: {}\r\n{lines}", CALL.len())
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}")
}

#[test]
fn tokens_are_accepted_only_in_the_header() {
    let host = Host::start();
    let almost = [
        String::new(),
        "authorization:".to_owned(),
        "authorization: Bearer".to_owned(),
        format!("authorization: {TOKEN}"),
        format!("authorization: Basic {TOKEN}"),
        format!("authorization: Bearer{TOKEN}"),
        format!("authorization: Bearer {}", &TOKEN[1..]),
        format!("authorization: Bearer {}", &TOKEN[..TOKEN.len() - 1]),
        format!("authorization: Bearer {TOKEN}x"),
        format!("authorization: Bearer {}", TOKEN.to_uppercase()),
        format!("authorization: Bearer x, Bearer {TOKEN}"),
        format!("authorization: Bearer x\r\nauthorization: Bearer {TOKEN}"),
        format!("authorization: Bearer {TOKEN}\r\nauthorization: Bearer x"),
        format!("cookie: authorization=Bearer {TOKEN}; token={TOKEN}"),
        format!("proxy-authorization: Bearer {TOKEN}"),
        format!("x-authorization: Bearer {TOKEN}\r\nkoze-token: {TOKEN}\r\nx-koze-tenant: default"),
        format!("authorization: Bearer {}", "x".repeat(7000)),
    ];
    for lines in &almost {
        for target in ["/sessions/s/tools/shell", "/mcp", "/nothing"] {
            assert_eq!(status(&host, &post(target, lines), CALL.as_bytes()), 401, "{target} {lines}");
        }
    }
    let query = TOKEN.replace(' ', "%20");
    for target in [
        format!("/sessions/s/tools/shell?token={query}&access_token={query}"),
        format!("/sessions/s/tools/shell?authorization=Bearer%20{query}"),
    ] {
        assert_eq!(status(&host, &post(&target, ""), CALL.as_bytes()), 401, "{target}");
    }
    assert_eq!(host.shell("s", "calls"), "1", "none of these was a call");
}

#[test]
fn a_session_belongs_to_its_tenant() {
    let host = tenants();
    let [(a, of_a), (_, of_b)] = TENANTS;
    let call = |token: &str, session: &str, tool: &str, input: &Value| {
        let bearer = format!("Bearer {token}");
        let path = format!("/sessions/{session}/tools/{tool}");
        let answer = host.send("POST", &path, &[("authorization", &bearer)], input.to_string().as_bytes());
        silent(&answer.body, &path);
        answer
    };
    let file = json!({ "path": "f", "content": "a secret of a" });
    let written = call(of_a, "s", "write_file", &file);
    assert_eq!((written.status, &written.json()["isError"]), (200, &json!(false)), "{written:?}");
    let names = ["s", "a:s", "a%3As", "a%2Fs", "..%2Fa%2Fs", "a,s", "1,a:s", "a%1Fs", "s%20", "S", "%73"];
    for session in names.map(str::to_owned).into_iter().chain([format!("{a}%5Cs"), "s%2F..%2Fs".to_owned()]) {
        let read = call(of_b, &session, "read_file", &json!({ "path": "f" }));
        assert!(!read.body.contains("a secret of a"), "{session}: {read:?}");
        assert!(read.status == 400 || read.json()["isError"] == true, "{session}: {read:?}");
    }
    for output in [json!({ "tenant": "a" }), json!({ "session": "s" }), json!({ "koze-tenant": "a" })] {
        let mut input = json!({ "path": "f" });
        input.as_object_mut().expect("an object").extend(output.as_object().expect("an object").clone());
        assert_eq!(call(of_b, "s", "read_file", &input).json()["isError"], true, "{output}");
    }
    let headers = [
        ("authorization", &*format!("Bearer {of_b}")),
        ("x-koze-tenant", "a"),
        ("koze-session", "s"),
        ("mcp-session-id", "s"),
    ];
    let read = host.send("POST", "/sessions/s/tools/read_file", &headers, b"{\"path\":\"f\"}");
    assert_eq!(read.json()["isError"], true, "{read:?}");
    assert_eq!(call(of_a, "s", "read_file", &json!({ "path": "f" })).json()["isError"], false);
}

#[test]
fn invalid_bodies() {
    let host = Host::start();
    let deep = |open: &str, close: &str| [open.repeat(200_000), close.repeat(200_000)].concat();
    let bodies: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"{".to_vec(),
        b"{\"command\":\"echo done\"} x".to_vec(),
        b"{'command':'echo done'}".to_vec(),
        b"command=echo+done".to_vec(),
        b"\xef\xbb\xbf{\"command\":\"echo done\"}".to_vec(),
        b"{\"command\":\"echo \xff\xfe\"}".to_vec(),
        b"{\"command\":\"echo \xc0\xae\"}".to_vec(),
        b"{\"command\":\"\\ud800\"}".to_vec(),
        b"{\"command\":\"echo\",\"timeout_ms\":1e999}".to_vec(),
        b"{\"command\":\"echo\",\"timeout_ms\":NaN}".to_vec(),
        b"{\"command\":\"a\nb\"}".to_vec(),
        vec![0; 1000],
        deep("[", "]").into_bytes(),
        deep("{\"a\":", "}").into_bytes(),
        format!("{{\"command\":{}1{}}}", "[".repeat(5000), "]".repeat(5000)).into_bytes(),
    ];
    let path = "/sessions/s/tools/shell";
    for body in &bodies {
        let answer = host.ask("POST", path, body);
        let shown: String = String::from_utf8_lossy(body).chars().take(60).collect();
        silent(&answer.body, &shown);
        assert_eq!(answer.refusal().0, 400, "{shown}");
        // Also without a content length.
        let mut chunked = format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len()).into_bytes();
        chunked.extend(body);
        chunked.extend(if body.is_empty() { &b"\r\n"[..] } else { b"\r\n0\r\n\r\n" });
        let answer = host.raw("POST", path, &chunked);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{shown}: {answer}");
    }
    // A duplicate key is refused, so that the value that was checked is also the one that is used.
    let twice = br#"{"command":"exit 1","command":"echo twice"}"#;
    let answer = host.ask("POST", path, twice).json();
    assert!(answer["content"].as_str().is_some_and(|content| content.contains("duplicate key")), "{answer}");
    // Two contradictory lengths are invalid.
    let both = format!("transfer-encoding: chunked\r\n{}", bearer(TOKEN));
    let refused = status(&host, &post(path, &both), format!("0\r\n\r\n{CALL}").as_bytes());
    assert!((400..500).contains(&refused), "{refused}");
}

#[test]
fn paths_with_dot_segments() {
    let host = Host::start();
    let (long, longer) = ("a".repeat(257), "a".repeat(60_000));
    let sessions = ["", "%00", "s%00", "%0d%0a", "%ff", "%c0%ae", "%ed%a0%80", "s%7f", &long, &longer];
    let sessions = sessions.map(|session| format!("/sessions/{session}/tools/shell"));
    let others = [
        "//sessions/s/tools/shell",
        "/sessions//s/tools/shell",
        "/sessions/s//tools/shell",
        "/sessions/s/tools//shell",
        "/sessions/s/tools/shell/",
        "/sessions/s/tools/shell/..",
        "/sessions/s/tools/shell/%2e%2e",
        "/sessions/../tools/shell",
        "/sessions/%2e%2e/tools/shell",
        "/sessions/./tools/shell",
        "/x/../../sessions/../etc/passwd",
        "/sessions/s/x/../../../mcp/..",
        "/%73essions%2Fs/tools/shell",
        "/Sessions/s/tools/shell",
        "/sessions;a/s/tools/shell",
        "/sessions/s/tools/shell%00.json/x",
        "/.wrangler/state",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/cdn-cgi/../sessions",
        "/src/generated/worker.mjs",
        "/KOZE_TOKEN",
    ];
    for target in sessions.iter().map(String::as_str).chain(others) {
        let refused = answer(&host, &post(target, &bearer(TOKEN)), CALL.as_bytes());
        // A path that normalizes to a directory of tools names a tool without a name.
        let nameless = refused.contains("unknown_tool: ");
        assert!(refused.starts_with("HTTP/1.1 4") || nameless, "{target}: {refused}");
    }
    for tool in
        ["..%2Fshell", "shell%00", "%2e%2e", "__proto__", "constructor", "SHELL", "shell%20", "%F0%9F%98%80"]
    {
        let answer = host.ask("POST", &format!("/sessions/s/tools/{tool}"), CALL.as_bytes());
        silent(&answer.body, tool);
        let unknown =
            |content: &Value| content.as_str().is_some_and(|text| text.starts_with("unknown_tool: "));
        assert!(answer.status == 404 || unknown(&answer.json()["content"]), "{tool}: {answer:?}");
    }
    assert_eq!(host.shell("s", "calls"), "1", "none of these was a call");
}

#[test]
fn unsupported_methods() {
    let host = Host::start();
    for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "post", "X"] {
        for token in [String::new(), bearer(TOKEN)] {
            let lines = format!("{token}\r\nx-http-method-override: POST\r\nx-http-method: POST");
            let head =
                post("/sessions/s/tools/shell?_method=POST", lines.trim_start()).replacen("POST", method, 1);
            let refused = status(&host, &head, CALL.as_bytes());
            assert!((400..=501).contains(&refused) && refused != 500, "{method}: {refused}");
        }
    }
    assert_eq!(host.shell("s", "calls"), "1", "none of these was a call");
}

/// Returns the host name of port 8080 of a sandbox in the session `s`.
fn preview(host: &Host) -> String {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("host", "agents.example"), ("authorization", bearer.as_str())];
    let answer = host.send("POST", "/sessions/s/tools/browse", &headers, b"{\"port\":8080}").json();
    let content: Value = serde_json::from_str(answer["content"].as_str().expect("a text")).expect("a URL");
    let url = content["url"].as_str().expect("a URL");
    url.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

#[test]
fn a_preview_reaches_only_its_port() {
    let host = Host::start();
    let name = preview(&host);
    let rest = name.strip_prefix("8080-").expect("its port");
    let (first, _) = name.split_once('.').expect("a name below the host");
    let (_, token) = first.rsplit_once('-').expect("a token");
    let get = |target: &str, lines: &str| {
        let head = format!("GET {target} HTTP/1.1\r\n{lines}\r\nconnection: close\r\n\r\n");
        host.exchange(head.as_bytes())
    };
    let reached = |answer: &str| answer.contains("x-of-the-port");
    assert!(reached(&get("/", &format!("host: {name}"))));
    for wrong in [
        format!("3000-{rest}"),
        format!("8081-{rest}"),
        format!("08080-{rest}"),
        format!("8080.0-{rest}"),
        format!("65536-{rest}"),
        format!("73616-{rest}"),
        format!("x.{name}"),
        format!("8080-{}.agents.example", "a".repeat(26)),
        name.replace(token, &token[..25]),
        name.replace(token, &format!("{token}a")),
        name.replace(token, &"a".repeat(26)),
        name.replace(token, ""),
        name.replacen('-', "--", 1),
        format!("agents.example\r\nx-forwarded-host: {name}"),
        format!("agents.example\r\nforwarded: host={name}"),
        format!("agents.example\r\nx-original-host: {name}"),
        "127.0.0.1:3000".to_owned(),
        "169.254.169.254".to_owned(),
    ] {
        let answer = get("/tools", &format!("host: {wrong}"));
        silent(&answer, &wrong);
        assert!(answer.starts_with("HTTP/1.1 4") && !reached(&answer), "{wrong}: {answer}");
    }
    // The Worker never forwards requests on a client's behalf, whatever the target says.
    for target in [
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://127.0.0.1:3000/".to_owned(),
        "https://example.com/tools".to_owned(),
        "ftp://example.com/".to_owned(),
        "//example.com/tools".to_owned(),
        format!("http://3000-{rest}/"),
    ] {
        let answer = get(&target, "host: agents.example");
        silent(&answer, &target);
        let about = answer.contains("Isolated Linux sandboxes for agents");
        assert!(answer.starts_with("HTTP/1.1 4") || about && !reached(&answer), "{target}: {answer}");
    }
}

/// Whatever headers a client sends, the object receives only the port and the nonce of the host name.
#[test]
fn headers_do_not_reach_the_control_port() {
    let host = Host::start();
    let name = preview(&host);
    for lines in [
        "koze-port: 3000",
        "KOZE-PORT: 3000",
        "koze-port: 8080\r\nkoze-port: 3000",
        "connection: close, koze-port\r\nkoze-port: 3000",
        "koze-nonce: aaaaaaaaaa",
        "Koze-Nonce: aaaaaaaaaa\r\nkoze-nonce: bbbbbbbbbb",
        "koze-port : 3000",
        " koze-port: 3000",
        "x: y\r\n koze-port: 3000",
        "koze_port: 3000",
        "cf-container-target-port: 3000",
        "Cf-Container-Target-Port: 3000\r\nx-sandbox-name: other",
        "x-forwarded-port: 3000\r\nx-forwarded-host: localhost:3000",
        "koze-object: ShellSandbox/0\r\nkoze-operation: destroy\r\nkoze-token: x\r\nkoze-host: localhost:3000",
        "x-koze-port: 3000\r\nkoze-scheme: https",
    ] {
        let head = format!("GET /?a HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n{lines}\r\n\r\n");
        let answer = host.exchange(head.as_bytes());
        silent(&answer, lines);
        if answer.starts_with("HTTP/1.1 400 ") {
            continue;
        }
        let body =
            answer.find('{').and_then(|at| serde_json::from_str::<Value>(answer[at..].trim_end()).ok());
        let seen = body.unwrap_or_else(|| panic!("{lines}: {answer}"));
        assert_eq!(seen["headers"]["koze-port"], "8080", "{lines}");
        let nonce = seen["headers"]["koze-nonce"].as_str().expect("a nonce");
        assert!(nonce.len() == 10 && name.contains(&format!("{nonce}.")), "{lines}: {nonce}");
        let names = seen["headers"].as_object().expect("headers").keys();
        let ours: Vec<&String> =
            names.filter(|name| name.starts_with("koze-") || name.contains("sandbox")).collect();
        assert_eq!(ours, ["koze-nonce", "koze-port"], "{lines}");
        assert!(seen["headers"].get("cf-container-target-port").is_none(), "{lines}");
    }
}
