//! Passes the container's outgoing connections to workerd, which decides about them.

use std::error::Error;
use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::net::sockopt::ip_original_dst;

use crate::names::{self, INTERNET};
use crate::{Policy, detached, head, join, tls};

/// The port to which all connections are redirected.
const PORT: u16 = 39002;

/// How long to wait for the first bytes of a connection. In some protocols, the server speaks first.
const FIRST_WORDS: Duration = Duration::from_millis(500);

/// Redirects all connections except those inside the network itself. All other traffic, except DNS queries, is dropped.
pub(crate) fn serve(network: &str) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))?;
    let names = names::PORT;
    let rules = format!(
        "*nat\n\
         -A OUTPUT -p udp --dport 53 -j REDIRECT --to-ports {names}\n\
         -A OUTPUT -d 127.0.0.0/8 -j RETURN\n\
         -A OUTPUT -d {network} -j RETURN\n\
         -A OUTPUT -p tcp -j REDIRECT --to-ports {PORT}\n\
         COMMIT\n\
         *filter\n\
         -A OUTPUT -d 127.0.0.0/8 -j ACCEPT\n\
         -A OUTPUT -d {network} -j ACCEPT\n\
         -A OUTPUT -j DROP\n\
         COMMIT\n"
    );
    let mut restore = Command::new("iptables-restore").stdin(Stdio::piped()).spawn()?;
    restore.stdin.take().ok_or("no pipe")?.write_all(rules.as_bytes())?;
    let status = restore.wait()?;
    if !status.success() {
        return Err(format!("iptables-restore: {status}").into());
    }
    detached(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { continue };
            detached(move || hand_over(&stream));
        }
        Ok(())
    });
    Ok(())
}

/// Passes a connection to workerd, with its original destination on this machine.
fn hand_over(stream: &TcpStream) -> io::Result<()> {
    let to = ip_original_dst(stream)?;
    if *to.ip() != INTERNET {
        return Ok(());
    }
    let port = to.port();
    let words = first_words(stream)?;
    let secure = tls::name(&words);
    let named = match (&secure, host(&words)) {
        (Some(name), _) => format!("X-Tls-Sni: {name}\r\n"),
        (None, Some(name)) => format!("X-Hostname: {name}\r\n"),
        (None, None) => String::new(),
    };
    let workerd = TcpStream::connect((gateway()?, Policy::now().port))?;
    workerd.set_nodelay(true)?;
    stream.set_nodelay(true)?;
    write!(&workerd, "CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{named}\r\n")?;
    let mut reader = BufReader::new(&workerd);
    // The second word of a response is its status.
    match (head(&mut reader)?.path.as_str(), secure) {
        ("200", Some(name)) => tls::see_through(stream.try_clone()?, &name, workerd.try_clone()?),
        ("200" | "202", _) => {
            (&*stream).write_all(reader.buffer())?;
            join(stream, &workerd);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Peeks at the beginning of a connection: the complete head of an HTTP request, or the complete TLS handshake record.
fn first_words(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + FIRST_WORDS;
    let mut words = vec![0; 8192];
    stream.set_read_timeout(Some(FIRST_WORDS))?;
    let mut length = 0;
    let whole = |words: &[u8]| tls::is_handshake(words) || words.windows(4).any(|end| end == b"\r\n\r\n");
    while Instant::now() < until && !whole(&words[..length]) {
        match stream.peek(&mut words) {
            Ok(0) => break,
            // Nothing new has arrived yet.
            Ok(seen) if seen == length => thread::sleep(Duration::from_millis(5)),
            Ok(seen) => length = seen,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                break;
            }
            Err(error) => return Err(error),
        }
    }
    stream.set_read_timeout(None)?;
    words.truncate(length);
    Ok(words)
}

/// Returns the host in a request, without the port.
fn host(words: &[u8]) -> Option<String> {
    let text = str::from_utf8(words).ok()?;
    let mut lines = text.split("\r\n");
    lines.next().filter(|line| line.contains(" HTTP/1."))?;
    let (_, host) =
        lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("host"))?;
    let host = host.trim();
    Some(host.split_once(':').map_or(host, |(host, _)| host).to_owned())
}

/// Returns the gateway of the network, where workerd listens.
fn gateway() -> io::Result<Ipv4Addr> {
    let routes = fs::read_to_string("/proc/net/route")?;
    let default = routes.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let gateway = default.filter(|fields| fields.get(1) == Some(&"00000000")).find_map(|fields| {
        u32::from_str_radix(fields.get(2)?, 16).ok().map(|number| Ipv4Addr::from(number.to_le_bytes()))
    });
    gateway.ok_or_else(|| io::Error::other("the network has no gateway"))
}
