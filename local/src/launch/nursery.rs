//! The nursery: the process that sandboxes are forked from. It runs the guest's program and does nothing else.
//!
//! Loading and linking a program takes longer than turning it into a sandbox, so it is done once. The nursery learns
//! nothing of any sandbox: a copy receives its specification over its own socket.
//!
//! One copy is prepared ahead for the next sandbox: it is in its namespaces, and waits. It gets its own view of the
//! host's mounts only with its specification, so that later mounts count too, and none is kept busy.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use koze_guest::channel;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use rustix::process::{Signal, WaitId, WaitIdOptions};
use serde::{Deserialize, Serialize};

use super::reap_process;
use super::spec::LeftOut;
use super::sys::{self, Process};
use super::{KEEP, NURSERY, TIMEOUT};
use crate::filter::{self, Program};
use crate::weakness::{Weakness, Weaknesses};

/// Fork a copy. The socket that it will serve is passed with the request.
#[derive(Debug, Serialize, Deserialize)]
struct Wanted<W> {
    /// The protections to leave out: sent as [`Weaknesses`], received as [`LeftOut`].
    weak: W,
    /// The system call filters that can be installed before the setup.
    filters: Vec<Program>,
}

/// A copy, which is a child of the requesting process. Its process descriptor is passed with it.
#[derive(Debug, Serialize, Deserialize)]
enum Made {
    /// Its process ID.
    Copy(u32),
    /// The kernel's error number.
    Failed(i32),
}

/// Why no copy was created.
pub(super) enum Missing {
    /// The kernel denied the namespaces.
    Refused(i32),
    /// The nursery is gone.
    Gone(io::Error),
}

impl From<io::Error> for Missing {
    fn from(error: io::Error) -> Self {
        Missing::Gone(error)
    }
}

/// A copy that waits for its specification.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) socket: OwnedFd,
    pub(super) process: Process,
}

impl Waiting {
    /// Kills and reaps it. Its parent is this process.
    pub(super) fn end(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.process.descriptor, Signal::KILL);
        reap_process(&self.process.descriptor);
    }

    fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(rustix::process::waitid(WaitId::PidFd(self.process.descriptor.as_fd()), look), Ok(None))
    }
}

/// The socket to the nursery, which exits when it is closed.
#[derive(Debug)]
pub(super) struct Nursery {
    socket: OwnedFd,
    process: std::process::Child,
    /// A copy that was prepared ahead, because creating namespaces is slow.
    spare: Option<Waiting>,
}

impl Nursery {
    /// Starts the nursery from a program.
    pub(super) fn start(program: &Path, weak: &Weaknesses) -> io::Result<Self> {
        let (socket, theirs) = create_socket_pair()?;
        let keep = weak.has(&Weakness::Descriptors).then_some((KEEP, "1"));
        let process = nursery_command(program, theirs).envs(keep).spawn()?;
        Ok(Nursery { socket, process, spare: None })
    }

    /// Creates a copy in its own namespaces.
    pub(super) fn copy(&self, weak: &Weaknesses) -> Result<Waiting, Missing> {
        let (socket, theirs) = create_socket_pair()?;
        let filters = filter::early_filters().map_err(io::Error::other)?;
        let wanted = Wanted { weak, filters };
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

    /// Prepares a copy without weaknesses. If that fails, the next launch reports the error.
    pub(super) fn prepare(&mut self) {
        if self.spare.is_none() {
            self.spare = self.copy(&Weaknesses::default()).ok();
        }
    }

    /// Returns the prepared copy, if it is still waiting.
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

/// Creates the socket pair of a launch. This side's has a timeout.
pub(super) fn create_socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (socket, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(TIMEOUT))?;
    Ok((socket, theirs))
}

/// Starts the program with an empty environment.
fn nursery_command(program: &Path, socket: OwnedFd) -> Command {
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

/// The initial state of a copy.
pub(super) struct Copy {
    pub(super) socket: OwnedFd,
    pub(super) weak: LeftOut,
    pub(super) filters: Vec<Program>,
}

/// Runs the nursery until its socket is closed. In a copy, returns its initial state.
pub(super) fn serve_copies(socket: &OwnedFd) -> io::Result<Option<Copy>> {
    // A copy has only one of several threads, and could wait forever for a lock of another.
    let alone = std::fs::read_dir("/proc/self/task")?.count() == 1;
    while let Some(came) = channel::receive::<Wanted<LeftOut>>(socket)? {
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
