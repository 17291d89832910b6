//! A small HTTP server, and a client that sends exact bytes. The server runs in this process as a target of egress, and
//! in a sandbox, to which this program is copied, as a target of previews.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use koze_core::Sandbox;
use koze_core::sandbox::Write as How;
use koze_local::LocalSandbox;

use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::stage::{at, out, program};

/// The argument that makes this program a server on the given address.
pub(crate) const SERVER: &str = "--server";
/// A timeout that only stuck operations reach.
const TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) fn run() -> ExitCode {
    let listener = TcpListener::bind(std::env::args().nth(2).unwrap()).unwrap();
    println!("up");
    serve(&listener);
    ExitCode::SUCCESS
}

/// Starts a server in this process.
pub(crate) fn here() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || serve(&listener));
    address
}

/// Starts a server in the background of a sandbox.
pub(crate) async fn inside(sandbox: &LocalSandbox, address: &str) {
    sandbox.write(at("/home/user/server"), program(), How::Replace).await.unwrap();
    sandbox.set_mode(at("/home/user/server"), 0o755).await.unwrap();
    start(sandbox, address).await;
}

/// The same if the program was already copied.
pub(crate) async fn start(sandbox: &LocalSandbox, address: &str) {
    let script = format!(
        "rm -f up; mkfifo up; ./server {SERVER} {address} > up 2> /dev/null & read line < up; echo $line"
    );
    assert_eq!(out(sandbox, &script).await, "up");
}

fn serve(listener: &TcpListener) {
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        stream.set_nodelay(true).unwrap();
        std::thread::spawn(move || {
            let _ = answer(stream);
        });
    }
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let head = head(&mut reader)?;
    let path = head.split([' ', '?']).nth(1).unwrap_or_default();
    match path {
        // Echo the head and the body.
        "/echo" => {
            let body = body(&head, &mut reader)?;
            let text = [head.as_bytes(), &body].concat();
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len())?;
            stream.write_all(&text)
        }
        // Echo each line of the body when it arrives.
        "/lines" => {
            write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            while let Some(line) = chunk(&mut reader)? {
                write!(stream, "{:x}\r\n", line.len())?;
                stream.write_all(&line)?;
                write!(stream, "\r\n")?;
            }
            write!(stream, "0\r\n\r\n")
        }
        "/upgrade" => {
            write!(
                stream,
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n"
            )?;
            let mut buffer = [0; 1024];
            loop {
                let read = reader.read(&mut buffer)?;
                if read == 0 {
                    return stream.write_all(b"BYE");
                }
                stream.write_all(&buffer[..read].to_ascii_uppercase())?;
            }
        }
        // A WebSocket that sends one message.
        "/socket" => {
            let key =
                head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap_or_default();
            let accept = derive_accept_key(key.as_bytes());
            write!(
                stream,
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n\r\n"
            )?;
            stream.write_all(b"\x81\x02hi")?;
            stream.read(&mut [0; 1024]).map(drop)
        }
        "/large" => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 30000000\r\n\r\n")?;
            (0..30).try_for_each(|_| stream.write_all(&vec![b'x'; 1_000_000]))
        }
        "/garbage" => stream.write_all(b"\x16\x03\x01 what?\r\n\r\n"),
        "/long-head" => write!(stream, "HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(1 << 20)),
        "/twice" => write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n"
        ),
        "/unasked" => {
            write!(stream, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
        }
        "/half" => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
        "/never" => {
            std::thread::sleep(TIMEOUT);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Reads up to and including the empty line.
pub(crate) fn head(reader: &mut impl BufRead) -> std::io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(std::io::Error::other(format!("half a head: {head}")));
        }
    }
    Ok(head)
}

fn body(head: &str, reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let head = head.to_ascii_lowercase();
    let mut body = Vec::new();
    if let Some(length) = head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        body.resize(length.parse().map_err(std::io::Error::other)?, 0);
        reader.read_exact(&mut body)?;
    } else if head.contains("transfer-encoding: chunked") {
        while let Some(chunk) = chunk(reader)? {
            body.extend(chunk);
        }
    }
    Ok(body)
}

/// Reads a chunk of a body. Returns `None` at its end.
pub(crate) fn chunk(reader: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let length = usize::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk)?;
    chunk.truncate(length);
    Ok((length > 0).then_some(chunk))
}

/// A connection to a preview: the address in its URL, and the `Host` to send.
pub(crate) struct Browser {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Browser {
    pub(crate) fn new(url: &str) -> Self {
        let host = url.strip_prefix("http://").unwrap().strip_suffix('/').unwrap().to_owned();
        let port = host.rsplit_once(':').unwrap().1.parse().unwrap();
        Browser { host, port }
    }

    pub(crate) fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        BufReader::new(stream)
    }

    /// Sends a request. Returns the status and the whole response.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.host))
    }

    /// Sends bytes. Returns the response until the connection is closed.
    pub(crate) fn send(&self, bytes: &str) -> (u16, String) {
        let mut stream = self.connect();
        // It may respond before it has read everything.
        let _ = stream.get_mut().write_all(bytes.as_bytes());
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        (text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0), text)
    }
}

/// Opens idle connections, then sends an honest request. Returns whether it was answered while the last of them were
/// still open, which depends on order and not on time. On a machine that stalls for the deadline of a connection, this
/// returns false too.
pub(crate) fn passes_idle_ones(port: u16, ask: impl Fn()) -> bool {
    const IDLE: usize = 300;
    let open = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let idle: Vec<TcpStream> = (0..IDLE).map(|_| open()).collect();
    ask();
    // Connections that are closed together with an evicted one are closed by then.
    std::thread::sleep(Duration::from_secs(1));
    idle[IDLE - 50..].iter().all(|mut stream| {
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    })
}
