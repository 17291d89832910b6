//! Standard input and output, without a thread that waits for each where the kernel can do without.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream as StdStream;

use rmcp::transport::io::stdio_pipes;
use rustix::net::{AddressFamily, SocketType, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

/// What a client says.
pub(super) type Input = Box<dyn AsyncRead + Send + Unpin>;
/// Where it hears the answer.
pub(super) type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Both. Clients that are Node programs give sockets, most others pipes.
pub(super) fn streams() -> (Input, Output) {
    match (socket(io::stdin().as_fd()), socket(io::stdout().as_fd())) {
        (Ok(input), Ok(output)) => (Box::new(input), Box::new(output)),
        _ => {
            let (input, output) = stdio_pipes();
            (Box::new(input), Box::new(output))
        }
    }
}

/// A stream that is a local socket. It no longer blocks from here on, for whoever else has this end of it, too: no
/// program that koze starts has.
fn socket(stream: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let local = sockopt::socket_domain(stream)? == AddressFamily::UNIX;
    if !local || sockopt::socket_type(stream)? != SocketType::STREAM {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let stream = StdStream::from(stream.try_clone_to_owned()?);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
