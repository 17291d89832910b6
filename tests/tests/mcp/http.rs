//! Plain HTTP: authentication, and invalid requests.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use fs_err as fs;
use koze_tests::processes;
use serde_json::{Value, json};

use crate::server::{Http, TIMEOUT, project};

const TOKEN: &str = "a-token-of-the-tests";
const ASK: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"hand","version":"1"}}}"#;
pub(crate) const JSON: &str =
    "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";

/// Sends a request, and returns the status and the whole response.
pub(crate) fn send(server: &Http, request: &str, headers: &str, body: &[u8]) -> (u16, String) {
    let (status, answer) = send_bytes(server, request, headers, body);
    (status, String::from_utf8_lossy(&answer).into_owned())
}

/// The same, with the answer as bytes.
pub(crate) fn send_bytes(server: &Http, request: &str, headers: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let head =
        format!("{request} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{request} {headers}: {text:?}")), answer)
}

/// Returns the response to a request of the newer protocol, whose client offers these capabilities.
pub(crate) fn ask(server: &Http, capabilities: &Value, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "a", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let named = ["name", "taskId", "uri"].into_iter().find_map(|name| params[name].as_str());
    let name = named.unwrap_or_default();
    let headers = format!(
        "Host: localhost\r\n{}{JSON}Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\nMcp-Name: {name}\r\n",
        bearer(server)
    );
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let (_, answer) = send(server, "POST /mcp", &headers, body.as_bytes());
    let message = answer.lines().find_map(|line| line.find("{\"").map(|start| &line[start..]));
    let message = message.unwrap_or_else(|| panic!("no message: {answer}"));
    serde_json::from_str(message).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// Returns the status of an `initialize` request with these additional headers.
fn begin(server: &Http, headers: &str) -> u16 {
    let host = format!("Host: {}\r\n", server.address());
    send(server, "POST /mcp", &format!("{host}{JSON}{headers}"), ASK.as_bytes()).0
}

pub(crate) fn bearer(server: &Http) -> String {
    format!("Authorization: Bearer {}\r\n", server.token)
}

#[test]
fn requests_need_the_token() {
    let host = project();
    let server = Http::start(&host, &[]);
    let (good, token) = (bearer(&server), server.token.clone());
    assert!(token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    assert_eq!(begin(&server, &good), 200);
    assert_eq!(begin(&server, &good.to_uppercase().replace("BEARER", "Bearer")), 401);
    for wrong in [
        String::new(),
        "Authorization: Bearer\r\n".to_owned(),
        format!("Authorization: Bearer {}\r\n", &token[1..]),
        format!("Authorization: Bearer {token}0\r\n"),
        format!("Authorization: Basic {token}\r\n"),
        format!("Authorization: {token}\r\n"),
        format!("Cookie: token={token}\r\n"),
        format!("X-Authorization: Bearer {token}\r\n"),
    ] {
        assert_eq!(begin(&server, &wrong), 401, "{wrong}");
    }
    let (status, answer) =
        send(&server, &format!("POST /mcp?token={token}"), &format!("Host: a\r\n{JSON}"), ASK.as_bytes());
    assert_eq!(status, 401);
    assert!(answer.to_lowercase().contains("www-authenticate: bearer"), "{answer}");
    // Without the token, not even the existing paths are revealed.
    assert_eq!(send(&server, "GET /other", "Host: localhost\r\n", b"").0, 401);
    assert_eq!(server.end(), "");
    // A new server has a new token.
    assert_ne!(Http::start(&host, &[]).token, token);
}

#[test]
fn a_configured_token_is_never_printed() {
    let host = project();
    let mut command = host.command(&["mcp", "--http"]);
    command.env("KOZE_MCP_TOKEN", TOKEN);
    let server = Http::run(command, Some(TOKEN));
    assert_eq!(begin(&server, &bearer(&server)), 200);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shell","arguments":{"command":"env"}}}"#;
    // A client of the older protocol that was never initialized.
    let headers = format!("Host: localhost\r\n{JSON}{}", bearer(&server));
    assert!(send(&server, "POST /mcp", &headers, call.as_bytes()).0 >= 400);
    let own = i32::try_from(server.id()).expect("a process id");
    assert_eq!(processes(|args| args.iter().any(|arg| arg.contains(TOKEN))), [0; 0]);
    assert!(fs::read_to_string(format!("/proc/{own}/environ")).expect("its environment").contains(TOKEN));
    host.shell("true");
    for supervisor in host.supervisors() {
        let environment = fs::read_to_string(format!("/proc/{supervisor}/environ")).expect("its environment");
        assert!(!environment.contains(TOKEN));
    }
    assert!(!host.shell("env").contains(TOKEN));
    assert_eq!(server.end(), "");
}

#[test]
fn pages_may_call_only_from_allowed_origins() {
    let host = project();
    let server = Http::start(
        &host,
        &["--allow-origin", "http://localhost:6274", "--allow-origin", "https://Example.com/"],
    );
    for (origin, expected) in [
        ("http://localhost:6274", 200),
        ("https://example.com", 200),
        ("http://localhost:6275", 403),
        ("http://localhost", 403),
        ("https://localhost:6274", 403),
        ("http://example.com", 403),
        ("http://evil.example.com", 403),
        ("https://example.com.evil.test", 403),
        ("null", 403),
        ("", 403),
    ] {
        let headers = format!("{}Origin: {origin}\r\n", bearer(&server));
        assert_eq!(begin(&server, &headers), expected, "{origin}");
    }
    let preflight = |origin: &str| {
        let headers = format!(
            "Host: {}\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: POST\r\n",
            server.address()
        );
        send(&server, "OPTIONS /mcp", &headers, b"")
    };
    let (status, answer) = preflight("http://localhost:6274");
    assert_eq!(status, 204);
    let answer = answer.to_lowercase();
    assert!(answer.contains("access-control-allow-origin: http://localhost:6274\r\n"), "{answer}");
    assert!(answer.contains("authorization") && answer.contains("mcp-session-id"), "{answer}");
    let (status, answer) = preflight("http://evil.test");
    assert_eq!(status, 403);
    assert!(!answer.to_lowercase().contains("access-control"), "{answer}");
    // Without an origin, the request is not a preflight request.
    assert_eq!(send(&server, "OPTIONS /mcp", "Host: localhost\r\n", b"").0, 401);

    let closed = Http::start(&host, &[]);
    assert_eq!(begin(&closed, &format!("{}Origin: http://{}\r\n", bearer(&closed), closed.address())), 403);
}

#[test]
fn other_names_of_this_machine_are_rejected() {
    let host = project();
    let server = Http::start(&host, &[]);
    let headers = |name: &str| format!("Host: {name}\r\n{JSON}{}", bearer(&server));
    let status = |name: &str| send(&server, "POST /mcp", &headers(name), ASK.as_bytes()).0;
    assert_eq!([status("localhost"), status("127.0.0.1:1"), status("[::1]:8080")], [200; 3]);
    for name in ["evil.test", "localhost.evil.test", "127.0.0.1.evil.test:80", "192.0.2.1", ""] {
        let status = status(name);
        assert!(status == 403 || status == 400, "{name}: {status}");
    }
}

/// Returns the body of a response.
pub(crate) fn body_of(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn refusals_are_json() {
    let server = Http::start(&project(), &[]);
    let good = format!("Host: localhost\r\n{}", bearer(&server));
    let (json, evil) = (format!("{good}{JSON}"), format!("{good}{JSON}Origin: http://evil.test\r\n"));
    let foreign = format!("Host: evil.test\r\n{}{JSON}", bearer(&server));
    let unknown = format!("{json}Mcp-Session-Id: none\r\n");
    for (request, headers, status, code) in [
        ("POST /mcp", "Host: localhost\r\n", 401, "unauthorized"),
        ("POST /mcp", &evil, 403, "forbidden"),
        ("POST /mcp", &foreign, 403, "forbidden"),
        ("POST /other", &json, 404, "not_found"),
        ("POST /mcp", &unknown, 404, "not_found"),
        ("PUT /mcp", &json, 405, "method_not_allowed"),
        ("POST /mcp", &good, 406, "invalid_input"),
        ("POST /sessions/default/sandboxes/none", &json, 405, "method_not_allowed"),
        ("DELETE /sessions/default/sandboxes/none", &json, 404, "not_found"),
        ("DELETE /sessions/other/sandboxes/none", &json, 404, "not_found"),
    ] {
        let (told, answer) = send(&server, request, headers, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let error = &body_of(&answer)["error"];
        assert_eq!((told, &error["code"]), (status, &json!(code)), "{request} {headers}: {answer}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{answer}");
        if status == 405 {
            assert!(answer.to_lowercase().contains("\r\nallow: "), "{answer}");
        }
    }
}

#[test]
fn a_sandbox_is_destroyed() {
    let host = project();
    let server = Http::start(&host, &[]);
    let good = format!("Host: localhost\r\n{}", bearer(&server));
    let (status, _) = send(&server, "POST /sessions/default/tools/shell", &good, br#"{"command":"true"}"#);
    assert_eq!(status, 200);
    let destroy = || send(&server, "DELETE /sessions/default/sandboxes/default", &good, b"");
    let (status, answer) = destroy();
    assert_eq!((status, body_of(&answer)), (200, json!({ "ok": true })));
    assert_eq!(destroy().0, 404, "it is gone");
}

#[test]
fn arguments_that_are_no_object_are_an_error_of_the_protocol() {
    let server = Http::start(&project(), &[]);
    let headers = format!("Host: localhost\r\n{}{JSON}", bearer(&server));
    for (params, says) in [
        (r#"{"name":"shell","arguments":"{\"command\":\"true\"}"}"#, "`arguments` is a string"),
        (r#"{"name":"shell","arguments":[]}"#, "`arguments` is an array"),
    ] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#);
        let (status, answer) = send(&server, "POST /mcp", &headers, call.as_bytes());
        let message = body_of(&answer);
        assert_eq!((status, &message["id"]), (200, &json!(7)), "{answer}");
        let error = &message["error"];
        assert!(
            error["code"] == -32602 && error["message"].as_str().is_some_and(|text| text.starts_with(says)),
            "{answer}"
        );
    }
}

#[test]
fn the_other_loopback_address_works() {
    let server = Http::start(&project(), &["[::1]:0"]);
    assert!(server.url.starts_with("http://[::1]:"), "{}", server.url);
    assert_eq!(begin(&server, &bearer(&server)), 200);
}

#[test]
fn invalid_requests_are_rejected() {
    let host = project();
    let server = Http::start(&host, &[]);
    let good = format!("Host: localhost\r\n{}", bearer(&server));
    let json = format!("{good}{JSON}");
    let status = |request: &str, headers: &str, body: &[u8]| send(&server, request, headers, body).0;
    assert_eq!(status("POST /", &json, ASK.as_bytes()), 405);
    assert_eq!(status("POST /mcp/x", &json, ASK.as_bytes()), 404);
    assert_eq!(status("PUT /mcp", &json, ASK.as_bytes()), 405);
    assert_eq!(status("POST /mcp", &good, ASK.as_bytes()), 406);
    for body in [&b"[]"[..], b"null", b"{}", br#"{"jsonrpc":"1.0"}"#] {
        let status = status("POST /mcp", &json, body);
        assert!((400..500).contains(&status), "{:?}: {status}", String::from_utf8_lossy(body));
    }
    for body in [&b""[..], b"{", b"\xff\xfe"] {
        let (status, answer) = send(&server, "POST /mcp", &json, body);
        let error = &body_of(&answer)["error"];
        assert!(status == 400 && error["code"] == -32700, "{answer}");
    }
    // An unknown session.
    let unknown = format!("{json}Mcp-Session-Id: none\r\n");
    assert_eq!(status("POST /mcp", &unknown, br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#), 404);
    let get = format!("{good}Accept: text/event-stream\r\n");
    for request in ["GET /mcp", "DELETE /mcp"] {
        let without = status(request, &get, b"");
        assert!((400..500).contains(&without), "{request}: {without}");
        let with = status(request, &format!("{get}Mcp-Session-Id: none\r\n"), b"");
        assert!((200..500).contains(&with), "{request}: {with}");
    }
    let large = vec![b' '; (64 << 20) + 1];
    assert_eq!(status("POST /mcp", &json, &large), 413);
    assert!(status("GET /mcp", &format!("{good}X: {}\r\n", "x".repeat(1 << 20)), b"") >= 400);
    // The server still works afterward.
    assert_eq!(begin(&server, &bearer(&server)), 200);
    assert_eq!(server.end(), "");
}

/// A client of the older protocol listens to the server with GET, and ends its session with DELETE.
#[test]
fn sessions_have_a_stream_and_an_end() {
    let host = project();
    let server = Http::start(&host, &[]);
    let headers = format!("Host: {}\r\n{JSON}{}", server.address(), bearer(&server));
    let (status, answer) = send(&server, "POST /mcp", &headers, ASK.as_bytes());
    assert_eq!(status, 200, "{answer}");
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session");
    let of_session = format!("{headers}Mcp-Session-Id: {id}\r\n");
    let begun = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(send(&server, "POST /mcp", &of_session, begun).0, 202);
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    write!(stream, "GET /mcp HTTP/1.1\r\n{of_session}\r\n").expect("it reads");
    let mut head = [0; 15];
    stream.read_exact(&mut head).expect("the head of a stream");
    assert_eq!(String::from_utf8_lossy(&head), "HTTP/1.1 200 OK");
    let (status, answer) = send(&server, "DELETE /mcp", &of_session, b"");
    assert!((200..300).contains(&status), "{answer}");
    let list = br#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    assert_eq!(send(&server, "POST /mcp", &of_session, list).0, 404, "the session has ended");
    assert_eq!(server.end(), "");
}

/// Unauthenticated connections that send nothing.
const IDLE: usize = 300;

/// Checks the order of events, not the time: the authenticated client gets its answer while the last unauthenticated
/// connections are still open. If the machine stalls for longer than their timeout, the test retries with another
/// server.
#[test]
fn idle_connections_delay_nobody_who_has_the_token() {
    let host = project();
    let passes = || {
        let server = Http::start(&host, &[]);
        let open = || TcpStream::connect(server.address()).expect("it listens");
        let idle: Vec<TcpStream> = (0..IDLE).map(|_| open()).collect();
        assert_eq!(begin(&server, &bearer(&server)), 200);
        // Evicted connections are closed by then.
        std::thread::sleep(std::time::Duration::from_secs(1));
        idle[IDLE - 100..].iter().all(|mut stream| {
            stream.set_nonblocking(true).expect("a socket");
            stream.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        })
    };
    assert!((0..3).any(|_| passes()), "the client waited until idle connections were closed");
}

#[test]
fn an_authenticated_connection_is_never_evicted() {
    let host = project();
    let server = Http::start(&host, &[]);
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let ask = format!("GET /other HTTP/1.1\r\nHost: localhost\r\n{}\r\n", bearer(&server));
    let mut answer = || {
        stream.write_all(ask.as_bytes()).expect("it is open");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        let mut rest = Vec::new();
        while !rest.ends_with(b"}}") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("the rest");
            rest.push(byte[0]);
        }
        String::from_utf8_lossy(&answer).into_owned()
    };
    assert_eq!(answer(), "HTTP/1.1 404");
    let strangers: Vec<_> =
        (0..IDLE).map(|_| TcpStream::connect(server.address()).expect("it listens")).collect();
    assert_eq!(begin(&server, &bearer(&server)), 200, "all of them have been accepted");
    assert_eq!(answer(), "HTTP/1.1 404");
    drop(strangers);
}
