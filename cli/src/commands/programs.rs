//! What the commands that run programs share: their exit codes, as of `docker run` and `timeout`, and what `koze shell` opens.

use koze_client::Session;
use koze_core::http::{ProcessEntry, StartProcess, TerminalSize};
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

/// Starts the login shell of a sandbox of a server, on a terminal of this size.
///
/// # Errors
/// The errors of the server. [`Code::NotFound`] if there is no such sandbox, or no shell in it.
pub(crate) fn start_shell(session: &Session, sandbox: &str, size: TerminalSize) -> Result<ProcessEntry> {
    let mut missing = None;
    for shell in SHELLS {
        let program = StartProcess {
            argv: vec![shell.to_owned(), "-l".to_owned()],
            terminal: Some(size),
            wait_for_readers: true,
            ..StartProcess::default()
        };
        match session.start_process(sandbox, &program) {
            Err(error) if error.code == Code::NotFound => missing = Some(error),
            started => return started,
        }
    }
    Err(missing.expect("there is at least one shell"))
}

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
