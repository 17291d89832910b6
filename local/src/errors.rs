//! Errors that several operations report.

use std::io;

use koze_core::error::{Code, Error};
pub(super) use koze_state::errors::{convert_fault, gone_error, unexpected_answer};

/// Converts an error of the state directory. Omits the path, which would be the host's.
pub(super) fn state_failed(error: io::Error) -> Error {
    Error::new(Code::Internal, format!("the sandbox's state cannot be used: {error}")).with_source(error)
}

/// Returns the error for a sandbox whose files take more than they may.
pub(super) fn disk_full() -> Error {
    Error::new(Code::TooLarge, "the sandbox's disk is full: delete files first")
}

/// Returns the error for a handle of a destroyed sandbox.
pub(super) fn destroyed_error() -> Error {
    Error::new(Code::NotFound, "the sandbox was destroyed")
}
