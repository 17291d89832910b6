//! Copies the standard streams of a program, each on a thread of its own.

use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
#[cfg(namespaces)]
use rustix::pipe::{SpliceFlags, splice};

/// How much is moved at once, in bytes.
#[cfg(namespaces)]
const PIECE: usize = 1 << 20;
/// The size of the buffer where the kernel cannot move bytes itself.
const BUFFER: usize = 64 << 10;

/// Announces to the threads that the program has ended.
#[derive(Debug, Clone)]
pub(super) struct Ending(Arc<(PipeReader, PipeWriter)>);

impl Ending {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Ending(Arc::new(io::pipe()?)))
    }

    /// Announces that the program has ended. What it has written is still copied.
    pub(super) fn announce(&self) {
        // Nobody reads it, so that every thread sees it.
        let _ = (&self.0.1).write(&[0]);
    }
}

/// How a copy ended.
#[derive(Debug)]
pub(super) enum End {
    /// Everything was copied.
    Finished,
    /// The reader needs no more.
    Closed,
    /// The output cannot be written.
    Failed(Errno),
}

impl PartialEq for End {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Copies output until its end. Once the program has ended, copies only what is there: programs that it left in the
/// background may keep the stream open.
pub(super) fn copy_output(from: &OwnedFd, to: BorrowedFd<'_>, ending: &Ending) -> End {
    let mut mover = Mover::default();
    loop {
        let mut ready = [PollFd::new(from, PollFlags::IN), PollFd::new(&ending.0.0, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return End::Failed(error),
        }
        if ready[0].revents().is_empty() {
            return End::Finished;
        }
        match mover.transfer(from.as_fd(), to) {
            Ok(0) | Err(Moved::FromEnded) => return End::Finished,
            Ok(_) => {}
            Err(Moved::ToFailed(Errno::PIPE)) => return End::Closed,
            Err(Moved::ToFailed(error)) => return End::Failed(error),
        }
    }
}

/// Copies input until its end, or until the program closes it.
pub(super) fn copy_input(from: BorrowedFd<'_>, to: OwnedFd) {
    let mut mover = Mover::default();
    while matches!(mover.transfer(from, to.as_fd()), Ok(1..)) {}
    // The program sees the end of its input.
    drop(to);
}

/// Why nothing was moved.
enum Moved {
    /// The source cannot be read any more: a terminal was closed.
    FromEnded,
    /// The target cannot be written.
    ToFailed(Errno),
}

/// Moves bytes from one descriptor to another.
#[derive(Default)]
struct Mover {
    /// `None` as long as the kernel moves the bytes itself.
    buffer: Option<Vec<u8>>,
}

impl Mover {
    /// Moves what there is, and waits for it if nothing is there. Returns how much, and 0 at the end.
    fn transfer(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<usize, Moved> {
        loop {
            #[cfg(not(namespaces))]
            let buffer = self.buffer.get_or_insert_with(|| vec![0; BUFFER]);
            #[cfg(namespaces)]
            let Some(buffer) = &mut self.buffer else {
                match splice(from, None, to, None, PIECE, SpliceFlags::empty()) {
                    Ok(moved) => return Ok(moved),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => wait_for(from, to),
                    Err(Errno::PIPE) => return Err(Moved::ToFailed(Errno::PIPE)),
                    // One of the two is no pipe, or a file that is open for appending, or the target failed, which writing
                    // then tells.
                    Err(_) => self.buffer = Some(vec![0; BUFFER]),
                }
                continue;
            };
            match rustix::io::read(from, &mut buffer[..]) {
                Ok(read) => {
                    write_all(to, &buffer[..read]).map_err(Moved::ToFailed)?;
                    return Ok(read);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait_for_input(from),
                Err(_) => return Err(Moved::FromEnded),
            }
        }
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            // Another program has made the target non-blocking, which all that share it see.
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(&to, PollFlags::OUT)], None)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn wait_for_input(from: BorrowedFd<'_>) {
    let _ = poll(&mut [PollFd::new(&from, PollFlags::IN)], None);
}

/// Waits until bytes can be moved.
#[cfg(namespaces)]
fn wait_for(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    wait_for_input(from);
    let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], None);
}
