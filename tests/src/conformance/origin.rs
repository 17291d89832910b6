//! A server for the cases of `fetch`: the host of the cases reaches it by [`NAME`].

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::{Map, Value, json};

/// The name by which scripts reach the server.
pub const NAME: &str = "origin.example";

/// A page with a form.
const PAGE: &str = "<!DOCTYPE html><title>A page</title><h1>Hello <b>ü</b></h1><form action=/form><input name=a value=old>\
                    <button>Send</button></form>";

/// Starts the server, which ends with this process.
///
/// - `/echo` answers with the request as JSON;
/// - `/to/URL` redirects with status 302 to the URL, and `/keep/URL` with 307;
/// - `/status/N` answers with that status and a text;
/// - `/bytes/N` answers with so many bytes;
/// - `/page` answers with a page that sets a cookie, and `/form` with one whose text is what a form sends.
///
/// # Panics
/// If it cannot listen on 127.0.0.1.
pub fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(answer(stream)));
        }
    });
    address
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Map::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.into());
    }
    let length = headers.get("content-length").and_then(Value::as_str).and_then(|text| text.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let (kind, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    let (status, extra, content) = match kind {
        "to" => (302, format!("Location: {rest}\r\n"), Vec::new()),
        "keep" => (307, format!("Location: {rest}\r\n"), Vec::new()),
        "status" => (rest.parse().unwrap_or(400), String::new(), b"a text".to_vec()),
        "page" => (
            200,
            "Set-Cookie: seen=yes\r\nContent-Type: text/html; charset=utf-8\r\n".to_owned(),
            PAGE.into(),
        ),
        _ if kind.starts_with("form?") => {
            let cookie = headers.get("cookie").and_then(Value::as_str).unwrap_or("none");
            (
                200,
                "Content-Type: text/html\r\n".to_owned(),
                format!("<p>{path}</p><i>{cookie}</i>").into_bytes(),
            )
        }
        "bytes" => (200, String::new(), vec![b'x'; rest.parse().unwrap_or(0)]),
        _ => {
            let body = String::from_utf8_lossy(&body);
            let echo = json!({ "method": method, "path": path, "headers": headers, "body": body });
            (200, "X-Mine: one\r\nx-mine: two\r\n".to_owned(), echo.to_string().into_bytes())
        }
    };
    write!(stream, "HTTP/1.1 {status} Text\r\n{extra}Content-Length: {}\r\n\r\n", content.len())?;
    if method == "HEAD" { Ok(()) } else { stream.write_all(&content) }
}
