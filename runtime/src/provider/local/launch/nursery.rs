//! The process that sandboxes are copied from: it runs the guest's program and does nothing else.
//!
//! A program starts for the most part by being loaded and linked, which takes longer than all that makes a sandbox of it. So
//! that is done once. It learns nothing of any sandbox: a copy gets what it is to be over a socket of its own.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use koze_guest::channel;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use serde::{Deserialize, Serialize};

use super::program::GuestProgram;
use super::sys::{self, Process};
use super::{NURSERY, PATIENCE};
use crate::error::{Code, Error, Result};

/// A copy is asked for; the socket it is to serve comes along.
#[derive(Debug, Serialize, Deserialize)]
struct Wanted;

/// A copy, which is a child of the process that asked; a descriptor of it comes along.
#[derive(Debug, Serialize, Deserialize)]
enum Made {
    /// Its number.
    Copy(u32),
    /// The kernel's error number.
    Failed(i32),
}

/// The way to it. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Nursery {
    socket: OwnedFd,
    process: std::process::Child,
}

impl Nursery {
    pub(super) fn start() -> Result<Self> {
        let failed =
            |error: io::Error| Error::new(Code::Internal, format!("a sandbox cannot be started: {error}"));
        let (socket, theirs) = pair().map_err(failed)?;
        let program = GuestProgram::get()?;
        let process = command(&program.path(), NURSERY, theirs).spawn().map_err(failed)?;
        Ok(Nursery { socket, process })
    }

    /// A new process, which serves the socket.
    pub(super) fn copy(&self, socket: &OwnedFd) -> io::Result<Process> {
        channel::send(&self.socket, 0, &Wanted, &[socket.as_fd()])?;
        let came = channel::receive::<Made>(&self.socket)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        match came.message {
            Made::Copy(number) => {
                let descriptor = came.descriptors.into_iter().next().ok_or(io::ErrorKind::InvalidData)?;
                Ok(Process { descriptor, number })
            }
            Made::Failed(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A socket for each side of a launch. This one's does not wait for ever.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (socket, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
    Ok((socket, theirs))
}

/// The program with an argument, in the environment of nobody.
pub(super) fn command(program: &Path, argument: &str, socket: OwnedFd) -> Command {
    let mut command = Command::new(program);
    command
        .arg0("koze")
        .arg(argument)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// What it does, until nobody can ask any more. In a copy it gives the socket to serve.
pub(super) fn serve(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    while let Some(came) = channel::receive::<Wanted>(socket)? {
        let Some(theirs) = came.descriptors.into_iter().next() else { continue };
        match sys::clone_sibling() {
            Ok(None) => return Ok(Some(theirs)),
            Ok(Some(copy)) => {
                channel::send(socket, 0, &Made::Copy(copy.number), &[copy.descriptor.as_fd()])?;
            }
            Err(error) => {
                let failed = Made::Failed(error.raw_os_error().unwrap_or(0));
                channel::send(socket, 0, &failed, &[])?;
            }
        }
    }
    Ok(None)
}
