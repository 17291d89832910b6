//! What workerd runs beside each container in the tests, in the place of an image that cannot be had everywhere.
//!
//! It shares the container's network and listens on a port of its own. workerd asks it with `CONNECT` for a connection to
//! a port of the container, which the header `x-dst-addr` names; whatever else it is told, of what may go out, it takes
//! and does nothing about.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

/// Where workerd looks for it.
const PORT: u16 = 39001;

/// The longest head of a request, and the longest body that is taken.
const LONGEST: u64 = 1 << 20;

/// What is asked for with `GET /ca` where connections with TLS are to be seen through: none is.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";

fn main() -> io::Result<()> {
    for stream in TcpListener::bind(("0.0.0.0", PORT))?.incoming() {
        // A connection that ends before it begins is nobody's loss.
        let Ok(stream) = stream else { continue };
        thread::spawn(move || {
            if let Err(error) = serve(&stream) {
                eprintln!("sidecar: {error}");
            }
        });
    }
    Ok(())
}

/// The request of a connection.
struct Head {
    method: String,
    path: String,
    /// Where `CONNECT` leads.
    to: String,
    length: u64,
}

fn serve(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let head = head(&mut reader)?;
    if head.method != "CONNECT" {
        io::copy(&mut reader.take(head.length.min(LONGEST)), &mut io::sink())?;
        let body = if head.path == "/ca" { CERTIFICATE } else { "" };
        return answer(stream, "200 OK", body);
    }
    let Ok(inside) = TcpStream::connect(&head.to) else { return answer(stream, "502 Bad Gateway", "") };
    inside.set_nodelay(true)?;
    (&*stream).write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    // What came along with the head.
    (&inside).write_all(reader.buffer())?;
    thread::scope(|scope| {
        scope.spawn(|| pump(stream, &inside));
        pump(&inside, stream);
    });
    Ok(())
}

fn head(reader: &mut impl BufRead) -> io::Result<Head> {
    let mut reader = reader.take(LONGEST);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let mut word = || words.next().unwrap_or_default().to_owned();
    let (method, path) = (word(), word());
    let mut head = Head { to: path.clone(), method, path, length: 0 };
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some((name, value)) = line.split_once(':') else { return Ok(head) };
        match &*name.to_ascii_lowercase() {
            "x-dst-addr" => value.trim().clone_into(&mut head.to),
            "content-length" => head.length = value.trim().parse().unwrap_or(0),
            _ => {}
        }
    }
}

fn answer(mut stream: &TcpStream, status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

/// Hands on what comes from one side; the end of it, too, and that the other takes no more.
fn pump(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
