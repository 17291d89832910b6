//! Requests to previews on this machine.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Returns the status and body for another path of a URL. Connects to this machine without resolving the URL's host
/// name.
///
/// # Panics
///
/// Panics if nothing listens there. If nothing listens there.
pub(super) fn get(url: &str, path: &str) -> (u16, String) {
    let (host, _) = url.strip_prefix("http://").expect("plain").split_once('/').expect("a path");
    let (_, port) = host.rsplit_once(':').expect("a port");
    let mut stream = TcpStream::connect(("127.0.0.1", port.parse().expect("a number"))).expect("it answers");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("it listens");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let answer = String::from_utf8_lossy(&bytes).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}
