//! The process that sandboxes are copied from: it runs the guest's program and does nothing else.
//!
//! A program starts for the most part by being loaded and linked, which takes longer than all that makes a sandbox of it. So
//! that is done once. It learns nothing of any sandbox: a copy gets what it is to be over a socket of its own.
//!
//! One copy is made ahead, for the next sandbox: it is in namespaces already, and waits. It has no view of the host's
//! mounts of its own before it is told what it is to be: what is mounted until then counts, and nothing is held.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use koze_guest::channel;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use rustix::process::{Signal, WaitId, WaitIdOptions};
use serde::{Deserialize, Serialize};

use super::super::filter;
use super::super::running::reap;
use super::sys::{self, Process};
use super::{NURSERY, PATIENCE, Program, Weaknesses};

/// A copy is asked for; the socket it is to serve comes along.
#[derive(Debug, Serialize, Deserialize)]
struct Wanted {
    /// What is left out, for tests.
    weak: Weaknesses,
    /// Filters of system calls that need not wait until a sandbox is built.
    filters: Vec<Program>,
}

/// A copy, which is a child of the process that asked; a descriptor of it comes along.
#[derive(Debug, Serialize, Deserialize)]
enum Made {
    /// Its number.
    Copy(u32),
    /// The kernel's error number.
    Failed(i32),
}

/// Why there is no copy.
pub(super) enum Missing {
    /// The kernel refused the namespaces.
    Refused(i32),
    /// The nursery is gone.
    Gone(io::Error),
}

impl From<io::Error> for Missing {
    fn from(error: io::Error) -> Self {
        Missing::Gone(error)
    }
}

/// A copy that waits to be told which sandbox it is to be.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) socket: OwnedFd,
    pub(super) process: Process,
}

impl Waiting {
    /// Ends it. Its parent is this process, which must take note of that.
    pub(super) fn end(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.process.descriptor, Signal::KILL);
        reap(&self.process.descriptor);
    }

    fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(rustix::process::waitid(WaitId::PidFd(self.process.descriptor.as_fd()), look), Ok(None))
    }
}

/// The way to it. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Nursery {
    socket: OwnedFd,
    process: std::process::Child,
    /// A copy that was made ahead: the kernel takes long to make namespaces.
    spare: Option<Waiting>,
}

impl Nursery {
    /// Starts it from a program, with a variable if there is one.
    pub(super) fn start(program: &Path, variable: Option<(&str, &str)>) -> io::Result<Self> {
        let (socket, theirs) = pair()?;
        let process = command(program, theirs).envs(variable).spawn()?;
        Ok(Nursery { socket, process, spare: None })
    }

    /// A new process in namespaces of its own.
    pub(super) fn copy(&self, weak: &Weaknesses) -> Result<Waiting, Missing> {
        let (socket, theirs) = pair()?;
        let filters = filter::early().map_err(io::Error::other)?;
        let wanted = Wanted { weak: weak.clone(), filters };
        channel::send(&self.socket, 0, &wanted, &[theirs.as_fd()])?;
        let came = channel::receive::<Made>(&self.socket)?;
        let came = came.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        match came.message {
            Made::Copy(number) => {
                let gone = || io::Error::from(io::ErrorKind::InvalidData);
                let descriptor = came.descriptors.into_iter().next().ok_or_else(gone)?;
                Ok(Waiting { socket, process: Process { descriptor, number } })
            }
            Made::Failed(errno) => Err(Missing::Refused(errno)),
        }
    }

    /// Makes a copy ahead, without weaknesses. Where that fails, the next launch says why.
    pub(super) fn prepare(&mut self) {
        if self.spare.is_none() {
            self.spare = self.copy(&Weaknesses::default()).ok();
        }
    }

    /// The copy that was made ahead, if it still waits.
    pub(super) fn spare(&mut self) -> Option<Waiting> {
        let spare = self.spare.take()?;
        if !spare.has_ended() {
            return Some(spare);
        }
        spare.end();
        None
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(spare) = &self.spare {
            spare.end();
        }
    }
}

/// A socket for each side of a launch. This one's does not wait for ever.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (socket, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
    Ok((socket, theirs))
}

/// The program, in the environment of nobody.
fn command(program: &Path, socket: OwnedFd) -> Command {
    let mut command = Command::new(program);
    command
        .arg0("koze")
        .arg(NURSERY)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// What a copy begins with.
pub(super) struct Copy {
    pub(super) socket: OwnedFd,
    pub(super) weak: Weaknesses,
    pub(super) filters: Vec<Program>,
}

/// What it does, until nobody can ask any more. In a copy it gives what that is to begin with.
pub(super) fn serve(socket: &OwnedFd) -> io::Result<Option<Copy>> {
    // Of several threads a copy has one, and may wait for what another one holds.
    let alone = std::fs::read_dir("/proc/self/task")?.count() == 1;
    while let Some(came) = channel::receive::<Wanted>(socket)? {
        let Some(theirs) = came.descriptors.into_iter().next() else { continue };
        let Wanted { weak, filters } = came.message;
        let cloned =
            if alone { sys::clone_sibling(&weak) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) };
        match cloned {
            Ok(None) => return Ok(Some(Copy { socket: theirs, weak, filters })),
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
