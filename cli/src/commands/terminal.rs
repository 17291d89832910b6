//! The terminal of this command, while a program in a sandbox has one of its own.

use std::io;
use std::sync::{Mutex, PoisonError};

use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

/// The size of a terminal of which none is known: rows and columns.
const DEFAULT_SIZE: (u16, u16) = (24, 80);

/// The terminal of standard input in raw mode: every key goes to the program, Ctrl-C included. Dropping it restores the
/// terminal's settings. Only `kill -9` leaves them raw; `stty sane` restores them then.
#[derive(Debug)]
pub(super) struct RawMode(());

/// The settings to restore, while the terminal is in raw mode.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Restores the settings of a terminal in raw mode.
pub(super) fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // A terminal that is gone needs no settings.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &before);
    }
}

impl RawMode {
    /// Sets raw mode.
    pub(super) fn set() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        Ok(RawMode(()))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

/// Returns whether standard input is a terminal.
pub(super) fn has_terminal() -> bool {
    isatty(io::stdin())
}

/// Returns the rows and columns of this command's terminal.
pub(super) fn size() -> (u16, u16) {
    let sizes = [tcgetwinsize(io::stdin()), tcgetwinsize(io::stdout()), tcgetwinsize(io::stderr())];
    let known = sizes.into_iter().flatten().find(|size| size.ws_row > 0 && size.ws_col > 0);
    known.map_or(DEFAULT_SIZE, |size| (size.ws_row, size.ws_col))
}
