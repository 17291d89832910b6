//! `koze ui --url`: the sandboxes of a server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use koze_tests::{Sandboxes, eventually};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, HandshakeError, Message, WebSocket, client};

use crate::drive_page;
use crate::refused::{Response, send, send_body, sign_in};
use crate::server::{Ui, project};

const TOKEN: &str = "the-token-of-the-server";
const TIMEOUT: Duration = Duration::from_mins(1);

/// `koze serve`, which is killed on drop.
struct Serve {
    child: Child,
    url: String,
}

impl Serve {
    fn start(host: &Sandboxes) -> Self {
        let mut command = host.command(&["serve", "--port", "0"]);
        command.env("KOZE_TOKEN", TOKEN).env_remove("KOZE_TOKENS");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("koze starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut serve = Serve { child, url: String::new() };
        let (found, url) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = stderr.read_line(&mut line);
            let _ = found.send(line);
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
        });
        let line = url.recv_timeout(TIMEOUT).expect("koze prints its address");
        line.trim_start_matches("koze serve: ").trim_end().clone_into(&mut serve.url);
        serve
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a page for the sandboxes of a server.
fn page_of(host: &Sandboxes, url: &str, token: &str, args: &[&str]) -> Ui {
    let mut command = host.command(&[&["ui", "--url", url], args].concat());
    command.env("KOZE_TOKEN", token);
    Ui::run(command)
}

/// A browser that is signed in.
struct Browser<'a> {
    ui: &'a Ui,
    cookie: String,
    origin: String,
}

impl<'a> Browser<'a> {
    fn new(ui: &'a Ui) -> Self {
        Browser { ui, cookie: sign_in(ui), origin: format!("http://{}", ui.host()) }
    }

    fn ask(&self, request: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let own = [("Host", self.ui.host()), ("Cookie", &self.cookie), ("Origin", &self.origin)];
        send_body(self.ui, request, &[&own[..], headers].concat(), body)
    }
}

fn json_of(response: &Response) -> Value {
    serde_json::from_str(&response.body).unwrap_or_else(|error| panic!("{error}: {}", response.body))
}

#[test]
fn the_requests_of_the_page_are_passed_on() {
    let host = project();
    host.shell("echo text > f; mkdir d");
    let server = Serve::start(&host);
    let ui = page_of(&host, &server.url, TOKEN, &[]);
    let browser = Browser::new(&ui);
    let sessions = json_of(&browser.ask("GET /sessions", &[], ""));
    assert_eq!(sessions["sessions"][0]["sandboxes"][0]["name"], "default", "{sessions}");
    assert_eq!(json_of(&browser.ask("GET /page", &[], "")), json!({ "read_only": false, "previews": false }));
    assert_eq!(
        browser.ask("GET /pictures/default/1/1", &[], "").status,
        404,
        "a server keeps none for the page"
    );

    // Files, with their ranges and conditions.
    let sandbox = "/sessions/default/sandboxes/default";
    let file = format!("{sandbox}/files/home/user/f");
    let read = browser.ask(&format!("GET {file}"), &[("Range", "bytes=1-2")], "");
    assert_eq!(
        (read.status, read.body.as_str(), read.header("content-range")),
        (206, "ex", Some("bytes 1-2/5"))
    );
    assert!(read.header("content-security-policy").is_some_and(|policy| policy.ends_with("; sandbox")));
    let tag = read.header("etag").expect("a tag").to_owned();
    let write = format!("PUT {file}");
    assert_eq!(browser.ask(&write, &[("If-Match", &tag)], "new\n").status, 204);
    let conflict = browser.ask(&write, &[("If-Match", &tag)], "lost\n");
    assert_eq!((conflict.status, &json_of(&conflict)["error"]["code"]), (412, &json!("precondition_failed")));
    assert_eq!(host.shell("cat f"), "new\n");
    assert_eq!(browser.ask(&format!("GET {sandbox}/files/none"), &[], "").status, 404);
    assert_eq!(browser.ask(&format!("DELETE {file}"), &[], "").status, 200);
    assert_eq!(host.shell("ls"), "d\n");

    // Only what the page needs, and only from the page.
    for request in [
        format!("DELETE {sandbox}"),
        "POST /sessions/default/tools/shell".to_owned(),
        "GET /tools".to_owned(),
    ] {
        let status = browser.ask(&request, &[], "{}").status;
        assert!(status == 403 || status == 404, "{request}: {status}");
    }
    // Servers would resolve this path to that of the sandbox.
    for dots in ["..", "%2e%2E", "x/../.."] {
        assert_eq!(browser.ask(&format!("DELETE {sandbox}/files/{dots}"), &[], "").status, 400, "{dots}");
    }
    let without_origin = [("Host", ui.host()), ("Cookie", browser.cookie.as_str())];
    assert_eq!(send(&ui, &write, &without_origin).status, 403);
    assert_eq!(send(&ui, "GET /sessions", &[("Host", ui.host())]).status, 401);
    let read_only = page_of(&host, &server.url, TOKEN, &["--read-only"]);
    for request in [&write, &format!("GET {sandbox}/terminal")] {
        assert_eq!(Browser::new(&read_only).ask(request, &[], "x").status, 403, "{request}");
    }
    assert_eq!(browser.ask(&format!("GET {sandbox}/terminal"), &[], "").status, 426);
    assert_eq!(host.shell("ls"), "d\n");

    // Another token is no reason to sign in again.
    let other = page_of(&host, &server.url, "the-token-of-nobody", &[]);
    let refused = Browser::new(&other).ask("GET /sessions", &[], "");
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("KOZE_TOKEN") && !refused.body.contains("the-token"), "{}", refused.body);
}

/// A server that answers each request as `answer` says, and tells what it was asked.
fn stub(answer: fn(&str) -> String) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (asked, requests) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let head = read_head(&stream);
            let _ = (&stream).write_all(answer(&head).as_bytes());
            if asked.send(head).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

fn read_head(stream: &TcpStream) -> String {
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let mut lines = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && lines.read_line(&mut head).is_ok_and(|read| read > 0) {}
    head
}

fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

#[test]
fn the_token_goes_to_the_server_only() {
    let (elsewhere, asked_elsewhere) = stub(|_| response("200 OK", "", "{}"));
    let (url, asked) = stub(|head| {
        let target = head.lines().find_map(|line| line.strip_prefix("last-event-id: ")).unwrap_or_default();
        response("302 Found", &format!("Location: {target}\r\nSet-Cookie: a=b\r\n"), "")
    });
    let host = project();
    let ui = page_of(&host, &url, TOKEN, &[]);
    let browser = Browser::new(&ui);
    let refused = browser.ask("GET /sessions/s/log?limit=1", &[("Last-Event-ID", &elsewhere)], "");
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("redirects"), "{}", refused.body);
    assert_eq!(refused.header("set-cookie"), None);
    let head = asked.recv_timeout(TIMEOUT).expect("a request").to_lowercase();
    assert!(head.starts_with("get /sessions/s/log?limit=1 http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("authorization: bearer {TOKEN}\r\n")), "{head}");
    assert!(!head.contains("cookie") && !head.contains("origin"), "{head}");
    assert!(asked_elsewhere.try_recv().is_err(), "the redirect was followed");
}

#[test]
fn a_worker_has_the_session_that_is_named() {
    let (url, _asked) = stub(|head| {
        if head.starts_with("GET /sessions ") {
            let error = json!({ "error": { "code": "unsupported", "message": "no list" } });
            return response("501 Not Implemented", "", &error.to_string());
        }
        assert!(head.starts_with("GET /sessions/an%20agent/sandboxes "), "{head}");
        let sandboxes = json!({ "sandboxes": [{ "name": "a", "image": "python", "status": "sleeping" }] });
        response("200 OK", "", &sandboxes.to_string())
    });
    let host = project();
    let ui = page_of(&host, &url, TOKEN, &["--session", "an agent"]);
    let sessions = json_of(&Browser::new(&ui).ask("GET /sessions", &[], ""));
    let sandbox = json!({ "name": "a", "image": "python", "status": "sleeping", "used": 0 });
    assert_eq!(sessions, json!({ "sessions": [{ "name": "an agent", "sandboxes": [sandbox], "calls": 0 }] }));
}

#[test]
fn the_page_shows_the_sandboxes_of_a_server() {
    let host = project();
    let server = Serve::start(&host);
    let ui = page_of(&host, &server.url, TOKEN, &[]);
    drive_page("remote.mjs", &host, &ui);
}

/// Returns the status of a request for a terminal, or the socket.
fn open_terminal(ui: &Ui, headers: &[(&'static str, &str)]) -> Result<WebSocket<TcpStream>, u16> {
    let path = "/sessions/default/sandboxes/default/terminal";
    let mut request = format!("ws://{}{path}", ui.host()).into_client_request().expect("a request");
    for (name, value) in headers {
        request.headers_mut().insert(*name, HeaderValue::from_str(value).expect("a header"));
    }
    let stream = TcpStream::connect(("127.0.0.1", ui.port())).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    match client(request, stream) {
        Ok((socket, _)) => Ok(socket),
        Err(HandshakeError::Failure(Error::Http(response))) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn terminals_are_opened_by_the_page_only_and_end_with_koze() {
    let host = project();
    host.shell("true");
    let server = Serve::start(&host);
    let pages = [page_of(&host, &server.url, TOKEN, &[]), Ui::start(&host, &[])];
    for (page, seconds) in pages.into_iter().zip(["595", "596"]) {
        let browser = Browser::new(&page);
        let (cookie, origin) = (("cookie", browser.cookie.as_str()), ("origin", browser.origin.as_str()));
        let other = format!("http://localhost:{}", page.port());
        for (headers, status) in [
            (&[origin][..], 401),
            (&[cookie], 403),
            (&[cookie, ("origin", "http://evil.example")], 403),
            (&[cookie, ("origin", &other)], 403),
            (&[cookie, ("origin", "null")], 403),
            (&[cookie, origin, ("sec-fetch-site", "same-site")], 403),
        ] {
            assert_eq!(open_terminal(&page, headers).err(), Some(status), "{headers:?}");
        }
        let mut socket =
            open_terminal(&page, &[cookie, origin, ("sec-fetch-site", "same-origin")]).expect("a socket");
        socket.send(Message::binary(format!("sleep {seconds}\n").into_bytes())).expect("it is sent");
        let running = || host.shell(&format!("ps ax | grep -c '[s]leep {seconds}'; true")).trim().to_owned();
        eventually("the program runs", || running() == "1");
        drop(browser);
        assert_eq!(page.stop().0, Some(0));
        eventually("the shell ends with koze", || running() == "0");
    }
}
