//! Connections with TLS, which workerd may want to see through: then they end here, with a certificate of an authority that
//! workerd has put into the container.

use std::io;
use std::net::TcpStream;
use std::sync::LazyLock;

use koze_sidecar::Authority;
use rustls::server::Acceptor;
use tokio::io::copy_bidirectional;
use tokio::runtime::Builder;
use tokio_rustls::TlsAcceptor;

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| Authority::new().expect("a key"));

/// What a record of a handshake begins with.
const HANDSHAKE: u8 = 22;

/// The certificate that is to be trusted.
pub(crate) fn certificate() -> &'static str {
    AUTHORITY.certificate()
}

/// Whether a connection begins with a whole record of a handshake.
pub(crate) fn is_handshake(words: &[u8]) -> bool {
    let [HANDSHAKE, _, _, high, low, rest @ ..] = words else { return false };
    rest.len() >= usize::from(u16::from_be_bytes([*high, *low]))
}

/// The name that a handshake asks for.
pub(crate) fn name(mut words: &[u8]) -> Option<String> {
    let mut acceptor = Acceptor::default();
    acceptor.read_tls(&mut words).ok()?;
    let accepted = acceptor.accept().ok()??;
    accepted.client_hello().server_name().map(str::to_owned)
}

/// Speaks TLS with a program in the container, as the server of a name, and joins what is said with another connection.
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
