//! A server on two streams, without a thread that waits for each.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream as StdStream;

use rmcp::service::{ServerInitializeError, serve_directly};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleServer, ServiceExt as _};
use rustix::fs::{FileType, OFlags};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::MAX_REQUEST;
use super::server::{Backend, Server};

/// What a client says.
type Input = Box<dyn AsyncRead + Send + Unpin>;
/// Where it hears the answer.
type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// The two streams of a client: sockets, as Node programs make them, or pipes.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
}

/// How far a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It has said nothing so far.
    Anew,
    /// Another server has talked to it before.
    Midway,
}

impl Streams {
    /// Standard input and output, where they are sockets or pipes. A terminal, or a file, is neither.
    pub(crate) fn standard() -> io::Result<Option<Self>> {
        let streams = Streams {
            input: io::stdin().as_fd().try_clone_to_owned()?,
            output: io::stdout().as_fd().try_clone_to_owned()?,
        };
        let good = |stream: &OwnedFd, write| {
            let mode = rustix::fs::fstat(stream)?.st_mode;
            io::Result::Ok(match FileType::from_raw_mode(mode) {
                FileType::Socket => true,
                // Another user's cannot be opened once more.
                FileType::Fifo => reopened(stream, write).is_ok(),
                _ => false,
            })
        };
        Ok((good(&streams.input, false)? && good(&streams.output, true)?).then_some(streams))
    }
}

/// Serves a client until it ends.
pub(crate) async fn serve<B: Backend>(
    server: Server<B>,
    streams: Streams,
    begin: Begin,
) -> Result<(), String> {
    let opened = input(streams.input).and_then(|input| Ok((input, output(streams.output)?)));
    let (input, output) = opened.map_err(|error| format!("the client cannot be heard: {error}"))?;
    on(server, input, output, begin).await
}

/// The same on whatever standard input and output are.
pub(crate) async fn serve_blocking<B: Backend>(server: Server<B>) -> Result<(), String> {
    on(server, Box::new(tokio::io::stdin()), Box::new(tokio::io::stdout()), Begin::Anew).await
}

async fn on<B: Backend>(server: Server<B>, input: Input, output: Output, begin: Begin) -> Result<(), String> {
    let transport = AsyncRwTransport::<RoleServer, _, _>::new_server(input, output);
    let transport = transport.with_max_line_length(MAX_REQUEST);
    let running = match begin {
        Begin::Midway => serve_directly(server, transport, None),
        Begin::Anew => match server.serve(transport).await {
            Ok(running) => running,
            // It only looked whether somebody is here.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        },
    };
    running.waiting().await.map(drop).map_err(|error| error.to_string())
}

fn input(stream: OwnedFd) -> io::Result<Input> {
    if is_pipe(&stream)? {
        return Ok(Box::new(pipe::Receiver::from_owned_fd(reopened(&stream, false)?)?));
    }
    Ok(Box::new(socket(stream)?))
}

fn output(stream: OwnedFd) -> io::Result<Output> {
    if is_pipe(&stream)? {
        return Ok(Box::new(pipe::Sender::from_owned_fd(reopened(&stream, true)?)?));
    }
    Ok(Box::new(socket(stream)?))
}

fn is_pipe(stream: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(stream)?.st_mode) == FileType::Fifo)
}

/// A pipe once more: one that does not block, while it goes on blocking for whoever else has this end of it.
fn reopened(stream: &OwnedFd, write: bool) -> io::Result<OwnedFd> {
    let mut options = OpenOptions::new();
    options.read(!write).write(write).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    Ok(options.open(format!("/proc/self/fd/{}", stream.as_raw_fd()))?.into())
}

/// A socket. It no longer blocks from here on, for whoever else has this end of it, too: no program that koze starts.
fn socket(stream: OwnedFd) -> io::Result<UnixStream> {
    let stream = StdStream::from(stream);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
