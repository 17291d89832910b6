//! Terminals, which a `WebSocket` carries.

use std::cell::RefCell;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use koze_tests::eventually;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket, client};

use crate::http::{bearer, send};
use crate::server::{Http, TIMEOUT, project};

/// The path of the sandbox of the tests.
const SANDBOX: &str = "/sessions/default/sandboxes/default";

/// A client of a terminal.
struct Terminal {
    socket: WebSocket<TcpStream>,
    /// The output that was not expected yet.
    output: String,
}

/// Opens a terminal with these headers, or returns the status and the body of the refusal.
fn open(server: &Http, path: &str, headers: &[(&'static str, &str)]) -> Result<Terminal, (u16, String)> {
    let mut request = format!("ws://{}{path}", server.address()).into_client_request().expect("a request");
    for (name, value) in headers {
        request.headers_mut().insert(*name, HeaderValue::from_str(value).expect("a header"));
    }
    let stream = TcpStream::connect(server.address()).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    stream.set_write_timeout(Some(TIMEOUT)).expect("a timeout");
    match client(request, stream) {
        Ok((socket, _)) => Ok(Terminal { socket, output: String::new() }),
        Err(error) => match error {
            tokio_tungstenite::tungstenite::HandshakeError::Failure(Error::Http(response)) => {
                let body = response.body().as_deref().map(String::from_utf8_lossy);
                Err((response.status().as_u16(), body.unwrap_or_default().into_owned()))
            }
            other => panic!("{other}"),
        },
    }
}

fn open_own(server: &Http, query: &str) -> Terminal {
    let token = format!("Bearer {}", server.token);
    open(server, &format!("{SANDBOX}/terminal{query}"), &[("authorization", &token)]).expect("a terminal")
}

impl Terminal {
    fn type_text(&mut self, text: &str) {
        self.socket.send(Message::binary(text.as_bytes().to_vec())).expect("it is sent");
    }

    /// Reads output until it has a text, and forgets it up to there.
    fn expect(&mut self, text: &str) {
        loop {
            if let Some(at) = self.output.find(text) {
                self.output.drain(..at + text.len());
                return;
            }
            match self.socket.read().expect("a message") {
                Message::Binary(bytes) => self.output.push_str(&String::from_utf8_lossy(&bytes)),
                Message::Ping(_) => {}
                other => panic!("{other:?} instead of {text:?} after {:?}", self.output),
            }
        }
    }

    /// Reads until the end. Returns the last message, and the code of the close.
    fn end(mut self) -> (Value, u16) {
        let mut last = Value::Null;
        loop {
            match self.socket.read().expect("a message") {
                Message::Text(text) => last = serde_json::from_str(&text).expect("JSON"),
                Message::Close(frame) => return (last, frame.expect("a reason").code.into()),
                _ => {}
            }
        }
    }
}

/// Starts a server with the sandbox `default`.
fn start(host: &koze_tests::Sandboxes, args: &[&str]) -> Http {
    host.shell("true");
    Http::start(host, args)
}

#[test]
fn a_terminal_is_a_login_shell() {
    let host = project();
    let server = start(&host, &[]);
    let mut terminal = open_own(&server, "?cols=100&rows=30");
    // The typed text does not contain what it prints.
    terminal.type_text("stty size; tty; shopt login_shell; echo $((6 * 7))$TERM\n");
    terminal.expect("30 100\r\n");
    terminal.expect("/dev/pts/");
    terminal.expect("login_shell    \ton\r\n");
    terminal.expect("42xterm-256color\r\n");
    let resize = json!({ "resize": { "cols": 61, "rows": 17 } }).to_string();
    terminal.socket.send(Message::text(resize)).expect("it is sent");
    terminal.type_text("stty size\n");
    terminal.expect("17 61\r\n");
    // Ctrl-C interrupts a program, and bytes that are not UTF-8 pass.
    let program = r#"sh -c 'trap "echo caught $((1 + 1)); exit" INT; echo begun $((1 + 1)); while :; do sleep 0.1; done'"#;
    terminal.type_text(&format!("{program}\n"));
    terminal.expect("begun 2\r\n");
    terminal.type_text("\u{3}");
    terminal.expect("caught 2\r\n");
    terminal.type_text("printf '\\303'; printf '\\244\\n'; exit 7\n");
    terminal.expect("ä\r\n");
    assert_eq!(terminal.end(), (json!({ "exit_code": 7 }), 1000));

    // The default size.
    let mut terminal = open_own(&server, "");
    terminal.type_text("stty size; exit\n");
    terminal.expect("24 80\r\n");
    assert_eq!(terminal.end(), (json!({ "exit_code": 0 }), 1000));
}

#[test]
fn a_socket_that_closes_kills_the_shell() {
    let host = project();
    let server = start(&host, &[]);
    let running = || host.shell("ps ax | grep -c '[s]leep 599'; true").trim().to_owned();
    for is_orderly in [true, false] {
        let mut terminal = open_own(&server, "");
        terminal.type_text("echo begun $((1 + 1)); trap '' HUP; sleep 599\n");
        terminal.expect("begun 2\r\n");
        eventually("the program runs", || running() == "1");
        if is_orderly {
            terminal.socket.close(None).expect("it closes");
            while terminal.socket.read().is_ok() {}
        }
        drop(terminal);
        eventually("the program is killed", || running() == "0");
    }
}

#[test]
fn output_that_nobody_reads_waits_in_the_sandbox() {
    let host = project();
    let server = start(&host, &[]);
    let mut terminal = open_own(&server, "");
    terminal.type_text("echo begun $((1 + 1)); yes 0123456789abcdef\n");
    terminal.expect("begun 2\r\n");
    let before = resident_kib(server.id());
    // Nobody reads: the program must stop, and the server must not collect what it prints.
    let printed =
        || host.shell("for at in /proc/[0-9]*; do grep -qsx yes $at/comm && grep wchar $at/io; done; true");
    let last = RefCell::new(String::new());
    eventually("the program waits", || {
        let now = printed();
        let waits = !now.is_empty() && now == last.replace(now.clone());
        thread::sleep(Duration::from_millis(300));
        waits
    });
    let grown = resident_kib(server.id()).saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB more");
    // All of it is there, and Ctrl-C ends it.
    terminal.expect("0123456789abcdef\r\n0123456789abcdef\r\n");
    terminal.type_text("\u{3}");
    terminal.type_text("exit 3\n");
    assert_eq!(terminal.end().0, json!({ "exit_code": 3 }));
}

#[test]
fn a_client_pauses_the_output() {
    let host = project();
    let server = start(&host, &[]);
    let mut terminal = open_own(&server, "");
    // Nothing else is printed before the line is read: no echo, and no prompt.
    terminal
        .type_text("stty -echo; echo begun $((1 + 1)); read -r line; echo paused; touch done; sleep 600\n");
    terminal.expect("begun 2\r\n");
    let pause = |terminal: &mut Terminal, is_paused: bool| {
        let message = json!({ "pause": is_paused }).to_string();
        terminal.socket.send(Message::text(message)).expect("it is sent");
    };
    pause(&mut terminal, true);
    terminal.type_text("a line\n");
    eventually("the shell has printed it", || host.shell("ls").contains("done"));
    let moment = Some(Duration::from_millis(300));
    terminal.socket.get_ref().set_read_timeout(moment).expect("a timeout");
    let received = terminal.socket.read();
    assert!(matches!(received, Err(Error::Io(_))), "{received:?}");
    terminal.socket.get_ref().set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    pause(&mut terminal, false);
    terminal.expect("paused\r\n");
}

/// Returns how much memory a process has, in KiB.
fn resident_kib(id: u32) -> u64 {
    let status = fs_err::read_to_string(format!("/proc/{id}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn terminals_are_refused_without_authorization_and_beyond_the_maximum() {
    let host = project();
    let server = start(&host, &["--allow-origin", "https://good.example"]);
    let path = format!("{SANDBOX}/terminal");
    let token = format!("Bearer {}", server.token);
    let own = ("authorization", token.as_str());
    let status = |path: &str, headers: &[(&'static str, &str)]| {
        open(&server, path, headers).err().map(|refused| refused.0)
    };
    assert_eq!(status(&path, &[]), Some(401));
    assert_eq!(status(&path, &[("authorization", "Bearer another-token-of-nobody")]), Some(401));
    for origin in ["https://evil.example", "null", "http://good.example"] {
        assert_eq!(status(&path, &[own, ("origin", origin)]), Some(403), "{origin}");
    }
    assert_eq!(status(&path, &[own, ("origin", "https://good.example")]), None);
    assert_eq!(status(&format!("{path}?cols=0"), &[own]), Some(400));
    for missing in ["/sessions/default/sandboxes/none/terminal", "/sessions/other/sandboxes/default/terminal"]
    {
        let refused = open(&server, missing, &[own]).err().expect("it is refused");
        assert_eq!(refused.0, 404, "{missing}");
    }
    let (code, answer) =
        send(&server, &format!("GET {path}"), &format!("Host: a\r\n{}", bearer(&server)), b"");
    assert!(code == 426 && answer.contains("this route is a WebSocket"), "{answer}");
    assert_eq!(
        send(&server, &format!("POST {path}"), &format!("Host: a\r\n{}", bearer(&server)), b"").0,
        405
    );

    let open_ones = RefCell::new(Vec::new());
    eventually("terminals that were closed make room", || {
        open_ones.borrow_mut().extend(open(&server, &path, &[own]).ok());
        open_ones.borrow().len() == 16
    });
    let (code, answer) = open(&server, &path, &[own]).err().expect("it is refused");
    assert!(code == 503 && answer.contains("16 terminals are open"), "{code} {answer}");
    open_ones.borrow_mut().pop();
    eventually("another one has room", || open(&server, &path, &[own]).is_ok());
}

#[test]
fn messages_that_are_not_valid_close_a_terminal() {
    let host = project();
    let server = start(&host, &[]);
    let large = "x".repeat(70_000);
    for (message, code) in [
        (Message::text("echo"), "invalid_input"),
        (Message::text(r#"{"resize":{"cols":0,"rows":1}}"#), "invalid_input"),
        (Message::binary(large.into_bytes()), "too_large"),
    ] {
        let mut terminal = open_own(&server, "");
        let _ = terminal.socket.send(message);
        let (last, close) = terminal.end();
        assert_eq!((&last["error"]["code"], close), (&json!(code), 1008), "{last}");
    }
}
