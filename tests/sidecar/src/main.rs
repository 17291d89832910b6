//! What workerd runs beside each container in the tests, in the place of an image that cannot be had everywhere.
//!
//! The container shares its network. It listens on a port of its own, where workerd asks it with `CONNECT` for a connection
//! to a port of the container, which the header `x-dst-addr` names, and tells it what may go out. Every connection from
//! within is brought before workerd (`outward`), and every question for a name is answered here (`names`).
//!
//! The internet of the tests is this machine's 127.0.0.1, whatever the port: all names lead to one address of a network that
//! is nobody's, which stands for it. There is nothing else to reach, and not a packet leaves the machine.

mod names;
mod outward;
mod tls;

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::Deserialize;

/// Where workerd looks for it.
const PORT: u16 = 39001;

/// The longest head of a request, and the longest body that is taken.
const LONGEST: u64 = 1 << 20;

/// What workerd has said of what may go out.
static POLICY: Mutex<Policy> = Mutex::new(Policy { port: 0, internet: false, names: Vec::new() });

/// What may go out.
#[derive(Debug)]
struct Policy {
    /// Where workerd takes the container's connections, at the gateway of the network.
    port: u16,
    /// Whether names are those of the internet.
    internet: bool,
    /// Patterns of names that lead somewhere without it, too, for workerd intercepts what goes there.
    names: Vec<String>,
}

impl Policy {
    fn now() -> MutexGuard<'static, Policy> {
        POLICY.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what was said; what was left out stays as it is.
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
    // workerd asks for two seconds whether somebody listens. It is answered when all is there, and then the container starts.
    let listener = TcpListener::bind(("0.0.0.0", PORT))?;
    names::serve()?;
    outward::serve(&network)?;
    for stream in listener.incoming() {
        // A connection that ends before it begins is nobody's loss.
        let Ok(stream) = stream else { continue };
        detached(move || serve(&stream));
    }
    Ok(())
}

/// Does something beside all else, and tells of it where it fails.
fn detached(work: impl FnOnce() -> io::Result<()> + Send + 'static) {
    thread::spawn(move || {
        if let Err(error) = work() {
            eprintln!("sidecar: {error}");
        }
    });
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
        let mut told = Vec::new();
        reader.take(head.length.min(LONGEST)).read_to_end(&mut told)?;
        if head.path == "/egress" {
            Policy::now().tell(serde_json::from_slice(&told)?);
        }
        // Asked for where connections with TLS are to be seen through.
        let body = if head.path == "/ca" { tls::certificate() } else { "" };
        return answer(stream, "200 OK", body);
    }
    let Ok(inside) = TcpStream::connect(&head.to) else { return answer(stream, "502 Bad Gateway", "") };
    inside.set_nodelay(true)?;
    (&*stream).write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    // What came along with the head.
    (&inside).write_all(reader.buffer())?;
    join(stream, &inside);
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

/// Joins two connections to their ends.
fn join(one: &TcpStream, other: &TcpStream) {
    thread::scope(|scope| {
        scope.spawn(|| pump(one, other));
        pump(other, one);
    });
}

/// Hands on what comes from one side; the end of it, too, and that the other takes no more.
fn pump(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
