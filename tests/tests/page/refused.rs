//! What the server of the page refuses, and the headers of all of its responses.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::server::{Ui, project};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A response.
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (given, value) = line.split_once(": ")?;
            given.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// Sends a request with these headers, and no others.
pub(crate) fn send(ui: &Ui, request: &str, headers: &[(&str, &str)]) -> Response {
    send_body(ui, request, headers, "")
}

/// The same with a body.
pub(crate) fn send_body(ui: &Ui, request: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut stream = TcpStream::connect(("127.0.0.1", ui.port())).expect("a connection");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let mut text = format!("{request} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    stream.write_all(format!("{text}\r\n{body}").as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a response");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Response { status, head: head.to_owned(), body: body.to_owned() }
}

/// Returns the cookie of a browser that has signed in.
pub(crate) fn sign_in(ui: &Ui) -> String {
    let bearer = format!("Bearer {}", ui.token());
    let origin = format!("http://{}", ui.host());
    let headers = [("Host", ui.host()), ("Origin", origin.as_str()), ("Authorization", bearer.as_str())];
    let response = send(ui, "POST /login", &headers);
    assert_eq!(response.status, 204, "{}", response.body);
    let cookie = response.header("set-cookie").expect("a cookie");
    let (value, attributes) = cookie.split_once("; ").expect("attributes");
    assert_eq!(attributes, "HttpOnly; SameSite=Strict; Path=/");
    value.to_owned()
}

#[test]
fn only_the_signed_in_page_reads() {
    let host = project();
    let ui = Ui::start(&host, &["--read-only"]);
    let cookie = sign_in(&ui);
    let own = ("Host", ui.host());
    let signed_in = ("Cookie", cookie.as_str());
    let read = |headers: &[(&str, &str)]| send(&ui, "GET /sessions", headers);
    assert_eq!(read(&[own, signed_in]).status, 200);

    // No cookie, or another one. The token of the URL is no cookie.
    let token = format!("koze_ui={}", ui.token());
    for headers in [&[own][..], &[own, ("Cookie", "koze_ui=x")], &[own, ("Cookie", &token)]] {
        let refused = read(headers);
        assert_eq!(refused.status, 401, "{headers:?}");
        assert!(refused.body.contains("open the URL that `koze ui` printed"), "{}", refused.body);
    }
    assert_eq!(send(&ui, "GET /pictures/default/1/1", &[own]).status, 401);
    assert_eq!(
        send(&ui, "GET /pictures/default/1/1", &[own, signed_in, ("Sec-Fetch-Site", "same-site")]).status,
        403
    );
    let bearer = format!("Bearer {}", ui.token());
    assert_eq!(read(&[own, ("Authorization", &bearer)]).status, 401, "a token is for signing in only");
    assert_eq!(send(&ui, "POST /login", &[own, ("Authorization", "Bearer x")]).status, 401);

    // Names that a hostile server can make resolve to this machine, also for the page itself.
    let numbers = format!("127.0.0.1:{}", ui.port());
    let localhost = format!("localhost:{}", ui.port());
    for name in ["evil.example", "koze-ui.localhost", numbers.as_str(), localhost.as_str()] {
        for path in ["/", "/app.js", "/sessions"] {
            let refused = send(&ui, &format!("GET {path}"), &[("Host", name), signed_in]);
            assert_eq!(refused.status, 403, "{name} {path}");
            assert!(refused.body.contains(ui.host()), "{}", refused.body);
        }
        let origin = format!("http://{name}");
        assert_eq!(read(&[own, signed_in, ("Origin", &origin)]).status, 403, "{origin}");
    }
    for site in ["same-site", "cross-site"] {
        assert_eq!(read(&[own, signed_in, ("Sec-Fetch-Site", site)]).status, 403, "{site}");
    }
    assert_eq!(read(&[own, signed_in, ("Sec-Fetch-Site", "same-origin")]).status, 200);

    // The page changes nothing, and serves no other routes.
    let sandboxes = "/sessions/default/sandboxes";
    for (request, status) in [
        (format!("POST {sandboxes}"), 403),
        (format!("DELETE {sandboxes}/default"), 403),
        (format!("PUT {sandboxes}/default/files/home/user/x"), 403),
        (format!("GET {sandboxes}/default/terminal"), 403),
        ("POST /sessions/default/tools/shell".to_owned(), 403),
        ("POST /sessions/default/tools/shell?tools=script".to_owned(), 403),
        ("POST /sessions/default/tools/list_tools?tools=script".to_owned(), 403),
        ("POST /sessions/default/snapshots".to_owned(), 403),
        ("POST /sessions".to_owned(), 405),
        ("GET /pictures/default/1/1".to_owned(), 404),
        ("POST /pictures/default/1/1".to_owned(), 405),
        ("GET /tools".to_owned(), 404),
        ("POST /mcp".to_owned(), 404),
        ("GET /login".to_owned(), 405),
        ("POST /".to_owned(), 405),
        ("GET /app.js/x".to_owned(), 404),
    ] {
        assert_eq!(send(&ui, &request, &[own, signed_in]).status, status, "{request}");
    }
    // Its own origin does not help where something may be changed.
    let origin = format!("http://{}", ui.host());
    let from_page = [own, signed_in, ("Origin", origin.as_str()), ("Sec-Fetch-Site", "same-origin")];
    for path in
        ["tools/db_sql?tools=script", "tools/browse?tools=agent", "snapshots", "snapshots/snap_1/branch"]
    {
        let refused = send(&ui, &format!("POST /sessions/default/{path}"), &from_page);
        assert_eq!(refused.status, 403, "{path}");
        assert!(refused.body.contains("without --read-only"), "{path}: {}", refused.body);
    }
    assert!(host.state().is_none(), "looking creates nothing");

    let other = Ui::start(&host, &[]);
    assert_eq!(
        send(&other, "GET /sessions", &[("Host", other.host()), signed_in]).status,
        401,
        "of another run"
    );
    assert_eq!(ui.stop().0, Some(0));
}

#[test]
fn every_response_is_confined() {
    let host = project();
    let ui = Ui::start(&host, &[]);
    let cookie = sign_in(&ui);
    let headers = [("Host", ui.host()), ("Cookie", cookie.as_str())];
    for path in [
        "/",
        "/app.js",
        "/app.css",
        "/xterm.js",
        "/xterm.css",
        "/icon.svg",
        "/pictures/default/1/1",
        "/page",
        "/sessions",
        "/sessions/default/log",
        "/missing",
    ] {
        let response = send(&ui, &format!("GET {path}"), &headers);
        let policy = response.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'; "), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        let is_data = path.starts_with("/sessions") || path.starts_with("/pictures");
        assert_eq!(policy.ends_with("; sandbox"), is_data, "{path}: {policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(response.header(name), Some(value), "{path}: {name}");
        }
        assert_eq!(response.header("access-control-allow-origin"), None, "{path}");
    }
}
