//! Pseudoterminals inside the sandbox.

use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::message::{Code, Fault};

/// Opens a pseudoterminal. The first descriptor is the controlling side, which is non-blocking; the second is for
/// programs.
pub(crate) fn open_terminal(rows: u16, columns: u16) -> Result<[OwnedFd; 2], Fault> {
    let opened = (|| {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let outside = openpt(flags)?;
        unlockpt(&outside)?;
        let inside = ioctl_tiocgptpeer(&outside, flags)?;
        resize_terminal(&outside, rows, columns)?;
        let status = rustix::fs::fcntl_getfl(&outside)?;
        rustix::fs::fcntl_setfl(&outside, status | OFlags::NONBLOCK)?;
        Ok([outside, inside])
    })();
    opened.map_err(|error: rustix::io::Errno| match error {
        rustix::io::Errno::NOENT => {
            Fault::new(Code::Unsupported, "the sandbox has no pseudoterminals: /dev/ptmx does not exist")
        }
        // The second error occurs while many are being closed.
        rustix::io::Errno::NOSPC | rustix::io::Errno::AGAIN => {
            Fault::new(Code::Unavailable, "the sandbox has too many terminals")
        }
        error => Fault::new(Code::Unavailable, format!("no terminal can be created: {error}")),
    })
}

/// Sets the size of a terminal, and notifies its programs.
pub(crate) fn resize_terminal(outside: &OwnedFd, rows: u16, columns: u16) -> rustix::io::Result<()> {
    tcsetwinsize(outside, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
}
