//! The container's log, which is the guest's standard error.

use std::io::{self, Write as _};

/// Writes a line to the container's log.
pub(super) fn say(text: &str) {
    // The log may have no reader, which is no reason to stop.
    let _ = writeln!(io::stderr(), "koze-guest: {text}");
}
