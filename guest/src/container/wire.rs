//! The stream that a connection uses: a TCP socket, or the standard input and output of the guest.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use rustix::fs::{Mode, OFlags};

use crate::net;

/// The stream of a connection.
#[derive(Debug)]
pub(super) enum Wire {
    /// A client connected over TCP.
    Tcp(TcpStream),
    /// The host that started the container.
    Stdio(Stdio),
}

/// The standard input and output that the guest was started with.
#[derive(Debug)]
pub(super) struct Stdio {
    input: File,
    output: File,
}

impl Stdio {
    /// Takes over the standard input and output of this process, so that nothing else reads or writes them.
    pub(super) fn take() -> io::Result<Self> {
        let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        Ok(Stdio { input: input.into(), output: output.into() })
    }
}

impl Wire {
    /// Prepares the stream for a connection.
    pub(super) fn prepare(&self) -> io::Result<()> {
        match self {
            Wire::Tcp(socket) => Ok(net::keep_alive(socket)?),
            Wire::Stdio(_) => Ok(()),
        }
    }

    /// Closes the stream. Its reader notices. The guest serves nobody else over its standard input and output, so it exits
    /// with them: as the first process of the container, it takes all others along.
    pub(super) fn close(&self) {
        match self {
            Wire::Tcp(socket) => {
                let _ = socket.shutdown(Shutdown::Both);
            }
            Wire::Stdio(_) => std::process::exit(0),
        }
    }
}

impl Read for &Wire {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Tcp(socket) => (&*socket).read(to),
            Wire::Stdio(stdio) => (&stdio.input).read(to),
        }
    }
}

impl Write for &Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Tcp(socket) => (&*socket).write(bytes),
            Wire::Stdio(stdio) => (&stdio.output).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
