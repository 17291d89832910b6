//! The program that workerd runs next to each container in the tests, in place of the platform's sidecar image, which
//! is not available everywhere.
//!
//! It shares the container's network. On its own port, workerd requests connections to the container's ports with
//! `CONNECT` (the header `x-dst-addr` names the port) and sets the egress policy. Every outgoing connection is passed
//! to workerd (`outward`), and DNS queries are answered here (`names`).
//!
//! The internet of the tests is this machine's 127.0.0.1, whatever the port: all names resolve to one reserved address,
//! which represents it. Nothing else is reachable, and no packet leaves the machine.

mod names;
mod outward;
mod tls;

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::Deserialize;

/// The port on which workerd expects it.
const PORT: u16 = 39001;

/// The maximum size of a request's head, and of a body.
const MAX_REQUEST: u64 = 1 << 20;

/// The egress policy that workerd has set.
static POLICY: Mutex<Policy> = Mutex::new(Policy { port: 0, internet: false, names: Vec::new() });

/// The egress policy.
#[derive(Debug)]
struct Policy {
    /// The port on which workerd accepts the container's connections, at the network's gateway.
    port: u16,
    /// Whether all names resolve.
    internet: bool,
    /// Patterns of names that resolve in any case, because workerd intercepts their traffic.
    names: Vec<String>,
}

impl Policy {
    fn now() -> MutexGuard<'static, Policy> {
        POLICY.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the policy. Omitted fields keep their values.
    fn tell(&mut self, told: Told) {
        self.port = told.port.unwrap_or(self.port);
        self.internet = told.internet.map_or(self.internet, |internet| internet.enabled);
        if let Some(dns) = told.dns {
            self.names = dns.allow_hostnames;
        }
    }
}

/// The body of `PUT /egress`.
#[derive(Deserialize)]
struct Told {
    port: Option<u16>,
    internet: Option<Internet>,
    dns: Option<Dns>,
}

#[derive(Deserialize)]
struct Internet {
    #[serde(default)]
    enabled: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dns {
    #[serde(default)]
    allow_hostnames: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--docker-gateway-cidr");
    let network = arguments.nth(1).ok_or("no --docker-gateway-cidr: which network is the gateway in?")?;
    // workerd waits two seconds for the port. Answer when everything is ready; then the container starts.
    let listener = TcpListener::bind(("0.0.0.0", PORT))?;
    names::serve()?;
    outward::serve(&network)?;
    for stream in listener.incoming() {
        // Ignore connections that end before they begin.
        let Ok(stream) = stream else { continue };
        detached(move || serve(&stream));
    }
    Ok(())
}

/// Runs an operation in the background and logs its failure.
fn detached(work: impl FnOnce() -> io::Result<()> + Send + 'static) {
    thread::spawn(move || {
        if let Err(error) = work() {
            eprintln!("sidecar: {error}");
        }
    });
}

/// The head of a request.
struct Head {
    method: String,
    path: String,
    /// The destination of `CONNECT`.
    to: String,
    length: u64,
}

fn serve(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let head = head(&mut reader)?;
    if head.method != "CONNECT" {
        let mut told = Vec::new();
        reader.take(head.length.min(MAX_REQUEST)).read_to_end(&mut told)?;
        if head.path == "/egress" {
            Policy::now().tell(serde_json::from_slice(&told)?);
        }
        // workerd requests the certificate if it is to intercept TLS.
        let body = if head.path == "/ca" { tls::certificate() } else { "" };
        return answer(stream, "200 OK", body);
    }
    let Ok(inside) = TcpStream::connect(&head.to) else { return answer(stream, "502 Bad Gateway", "") };
    inside.set_nodelay(true)?;
    (&*stream).write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    // Forward the bytes that arrived together with the head.
    (&inside).write_all(reader.buffer())?;
    join(stream, &inside);
    Ok(())
}

fn head(reader: &mut impl BufRead) -> io::Result<Head> {
    let mut reader = reader.take(MAX_REQUEST);
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

/// Joins two connections until both ends are closed.
fn join(one: &TcpStream, other: &TcpStream) {
    thread::scope(|scope| {
        scope.spawn(|| pump(one, other));
        pump(other, one);
    });
}

/// Forwards bytes in one direction, and the end of the stream in both.
fn pump(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
