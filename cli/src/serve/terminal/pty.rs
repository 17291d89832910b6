//! A pseudoterminal that is read and written without blocking.

use std::io;
use std::os::fd::OwnedFd;

use koze_core::http::WindowSize;
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::net::unix::pipe::{Receiver, Sender};

/// The outer end of a pseudoterminal.
pub(super) struct Pty {
    /// What the programs print. Reading fails once all of them have closed the terminal.
    pub(super) output: Receiver,
    /// What the client types.
    pub(super) input: Sender,
    pub(super) window: Window,
}

/// The window of a pseudoterminal.
pub(super) struct Window(OwnedFd);

impl Pty {
    /// Opens the outer end of a pseudoterminal.
    ///
    /// # Errors
    /// Returns an error if there are too many descriptors.
    pub(super) fn new(terminal: OwnedFd) -> io::Result<Self> {
        // The descriptors share it.
        rustix::io::ioctl_fionbio(&terminal, true)?;
        Ok(Pty {
            output: Receiver::from_owned_fd_unchecked(terminal.try_clone()?)?,
            input: Sender::from_owned_fd_unchecked(terminal.try_clone()?)?,
            window: Window(terminal),
        })
    }
}

impl Window {
    /// Reads what was printed and is still there. Returns 0 if nothing is.
    pub(super) fn read_rest(&self, buffer: &mut [u8]) -> usize {
        // `Receiver` would first have to learn that something is there.
        rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut *buffer)).unwrap_or(0)
    }

    /// Sets the size. The kernel tells the foreground programs (`SIGWINCH`).
    pub(super) fn resize(&self, WindowSize { cols, rows }: WindowSize) {
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        // A terminal that is no longer open needs no size.
        let _ = tcsetwinsize(&self.0, size);
    }
}
