//! TLS interception: terminates connections here, with a certificate of the authority that workerd has put into the
//! container.

use std::io;
use std::net::TcpStream;
use std::sync::LazyLock;

use koze_sidecar::Authority;
use rustls::server::Acceptor;
use tokio::io::copy_bidirectional;
use tokio::runtime::Builder;
use tokio_rustls::TlsAcceptor;

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| Authority::new().expect("a key"));

/// The type of a handshake record.
const HANDSHAKE: u8 = 22;

/// Returns the authority's certificate.
pub(crate) fn certificate() -> &'static str {
    AUTHORITY.certificate()
}

/// Returns whether a connection begins with a complete handshake record.
pub(crate) fn is_handshake(words: &[u8]) -> bool {
    let [HANDSHAKE, _, _, high, low, rest @ ..] = words else { return false };
    rest.len() >= usize::from(u16::from_be_bytes([*high, *low]))
}

/// Returns the server name that a handshake requests.
pub(crate) fn name(mut words: &[u8]) -> Option<String> {
    let mut acceptor = Acceptor::default();
    acceptor.read_tls(&mut words).ok()?;
    let accepted = acceptor.accept().ok()??;
    accepted.client_hello().server_name().map(str::to_owned)
}

/// Speaks TLS with a program in the container as the server with this name, and joins the plain text with another
/// connection.
pub(crate) fn see_through(inside: TcpStream, name: &str, outside: TcpStream) -> io::Result<()> {
    let config = AUTHORITY.server(&[name]).map_err(io::Error::other)?;
    for stream in [&inside, &outside] {
        stream.set_nonblocking(true)?;
    }
    Builder::new_current_thread().enable_io().build()?.block_on(async {
        let inside = tokio::net::TcpStream::from_std(inside)?;
        let mut outside = tokio::net::TcpStream::from_std(outside)?;
        let mut inside = TlsAcceptor::from(config).accept(inside).await?;
        copy_bidirectional(&mut inside, &mut outside).await.map(drop)
    })
}
