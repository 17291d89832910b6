//! What the commands that run programs share: their exit codes, as of `docker run` and `timeout`, and what `koze shell` opens.

use koze_core::{Code, Error, Result};

/// koze itself failed.
pub(super) const KOZE_FAILED: u8 = 125;
/// The program cannot be executed.
pub(super) const CANNOT_RUN: u8 = 126;
/// There is no such program.
pub(super) const NO_PROGRAM: u8 = 127;
/// What is added to the number of a signal that ends a program.
pub(super) const SIGNALED: u8 = 128;
/// The time of the program was up.
pub(super) const TIMED_OUT: u8 = 124;
/// The program was killed with its sandbox.
pub(super) const KILLED: u8 = 137;
/// Nobody reads the output of the program any more.
pub(super) const NO_READER: u8 = 141;

/// The login shells that `koze shell` tries.
pub(crate) const SHELLS: [&str; 2] = ["bash", "sh"];

/// Returns the name of the only sandbox of a session with these.
///
/// # Errors
/// [`Code::NotFound`] if there is none, and [`Code::InvalidInput`] if there are several.
pub(super) fn choose_only_sandbox(mut names: Vec<String>) -> Result<String> {
    match (names.pop(), names.as_slice()) {
        (Some(name), []) => Ok(name),
        (None, _) => {
            let message = "this session has no sandbox: `koze call` creates one on first use";
            Err(Error::new(Code::NotFound, message))
        }
        (Some(last), others) => {
            let message =
                format!("this session has several sandboxes, so name one: {}, {last}", others.join(", "));
            Err(Error::new(Code::InvalidInput, message))
        }
    }
}
