//! Previews through `koze serve --preview-url`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use koze_tests::{Sandboxes, eventually, run};
use serde_json::{Value, json};

use crate::http::send;
use crate::server::{Http, TIMEOUT, project};

const ANN: &str = "the-token-of-ann";
const OWN: &str = "the-token-of-the-default";

/// Returns the head of each request as the body, reads what is posted, and echoes bytes after an upgrade.
const SERVER: &str = r#"
import http.server

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.headers.get("upgrade") == "echo":
            self.send_response(101)
            self.send_header("connection", "upgrade")
            self.send_header("upgrade", "echo")
            self.end_headers()
            while data := self.rfile.read1(100):
                self.wfile.write(data)
            self.close_connection = True
            return
        posted = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        body = f"{self.requestline}\n{self.headers}\n{posted}".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.send_header("set-cookie", "a=1; Domain=previews.example; Path=/")
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"#;

fn command(host: &Sandboxes, args: &[&str]) -> Command {
    let mut command = host.command(&[&["serve"], args].concat());
    command.env("KOZE_TOKEN", OWN).env("KOZE_TOKENS", json!({ "ann": ANN }).to_string());
    command
}

fn start(host: &Sandboxes) -> Http {
    Http::serve(command(host, &["--preview-url", "https://previews.example"]), Some(OWN))
}

/// Calls a tool, and returns its result.
fn call(server: &Http, tool: &str, input: &Value) -> Value {
    let headers = format!("Host: agents.example\r\nAuthorization: Bearer {ANN}\r\n");
    let request = format!("POST /sessions/s/tools/{tool}");
    let (status, answer) = send(server, &request, &headers, input.to_string().as_bytes());
    let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").expect("a head").1).expect("JSON");
    assert_eq!((status, &body["isError"]), (200, &json!(false)), "{body}");
    serde_json::from_str(body["content"].as_str().expect("text")).expect("JSON")
}

/// Starts the program in the sandbox, and returns the host of its preview.
fn open_preview(server: &Http) -> String {
    call(server, "write_file", &json!({ "path": "server.py", "content": SERVER }));
    call(server, "shell", &json!({ "command": "python3 server.py > /dev/null 2>&1 &" }));
    let url = call(server, "browse", &json!({ "port": 8000 }))["url"].as_str().expect("a URL").to_owned();
    let host = url.strip_prefix("https://").and_then(|rest| rest.strip_suffix('/'));
    let host = host.unwrap_or_else(|| panic!("{url}")).to_owned();
    assert!(host.starts_with("8000-default-") && host.ends_with(".previews.example"), "{url}");
    eventually("it listens", || get(server, &host, "/", "").0 == 200);
    host
}

fn get(server: &Http, host: &str, path: &str, headers: &str) -> (u16, String) {
    send(server, &format!("GET {path}"), &format!("Host: {host}\r\n{headers}"), b"")
}

#[test]
fn a_preview_is_an_origin_of_its_own() {
    let host = project();
    let server = start(&host);
    let preview = open_preview(&server);
    let (_, answer) = get(&server, &preview, "/a/b?c=%20", "X-Mine: 1\r\nAuthorization: Basic YTpi\r\n");
    for part in [
        "GET /a/b?c=%20 HTTP/1.1\n".to_owned(),
        format!("host: {preview}\n"),
        format!("x-forwarded-host: {preview}\n"),
        "x-forwarded-proto: https\n".to_owned(),
        "x-mine: 1\n".to_owned(),
        "authorization: basic ytpi\n".to_owned(),
    ] {
        assert!(answer.to_lowercase().contains(&part.to_lowercase()), "{part}: {answer}");
    }
    assert!(answer.contains("a=1; Path=/") && !answer.contains("Domain="), "{answer}");
    let (status, answer) = send(&server, "POST /", &format!("Host: {preview}:8443\r\n"), b"posted");
    assert!(status == 200 && answer.ends_with("\nposted"), "{answer}");

    // No token of the server reaches the program, in no header.
    let secret = format!("Authorization: Bearer {ANN}\r\nCookie: token={OWN}\r\nX-Other: 1\r\n");
    let (status, answer) = get(&server, &preview, "/", &secret);
    assert!(status == 200 && answer.to_lowercase().contains("x-other: 1"), "{answer}");
    assert!(!answer.contains("the-token-of"), "{answer}");

    // None of the server's routes is at a host of previews, and pages of a preview may not use them elsewhere.
    let bearer = format!("Authorization: Bearer {ANN}\r\n");
    let (status, answer) = get(&server, &preview, "/tools", &bearer);
    assert!(status == 200 && answer.contains("GET /tools"), "the program answers: {answer}");
    assert_eq!(get(&server, "x.previews.example", "/tools", &bearer).0, 404);
    assert_eq!(get(&server, "agents.example", "/tools", &bearer).0, 200);
    let page = format!("{bearer}Origin: https://{preview}\r\n");
    assert_eq!(get(&server, "agents.example", "/tools", &page).0, 403);

    // The URL is the same again, and another token is not accepted.
    let again = call(&server, "browse", &json!({ "port": 8000 }));
    assert_eq!(again["url"], format!("https://{preview}/"));
    let last = if preview.contains("0.previews") { "1.previews" } else { "0.previews" };
    let at = preview.find(".previews").expect("the host") - 1;
    let forged = format!("{}{last}.example", &preview[..at]);
    assert_eq!(get(&server, &forged, "/", "").0, 404);

    let headers = format!("Host: agents.example\r\nAuthorization: Bearer {ANN}\r\n");
    assert_eq!(send(&server, "DELETE /sessions/s/sandboxes/default", &headers, b"").0, 200);
    assert_eq!(get(&server, &preview, "/", "").0, 404, "it was invalid with its sandbox");
}

#[test]
fn connections_are_upgraded() {
    let host = project();
    let server = start(&host);
    let preview = open_preview(&server);
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    write!(stream, "GET / HTTP/1.1\r\nHost: {preview}\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        .expect("it reads");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    assert!(head.starts_with("http/1.1 101") && head.contains("upgrade: echo"), "{head}");
    for text in ["one", "two"] {
        stream.write_all(text.as_bytes()).expect("it reads");
        let mut echo = [0; 3];
        stream.read_exact(&mut echo).expect("an echo");
        assert_eq!(echo, text.as_bytes());
    }
}

#[test]
fn urls_that_cannot_have_subdomains_are_refused() {
    let host = project();
    for (url, why) in [
        ("previews.example", "begins with neither http:// nor https://"),
        ("https://127.0.0.1:8787", "has an address, which cannot have subdomains"),
        ("https://previews.example/below", "has more than a host and a port"),
    ] {
        let output = run(command(&host, &["--preview-url", url]), TIMEOUT);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(why), "{url}: {told}");
    }
}
