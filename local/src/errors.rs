//! Errors that several operations report.

use std::io;

use koze_core::error::{Code, Error};
use koze_guest::message::Fault;

/// Returns the error for a call whose sandbox ended.
pub(super) fn gone_error() -> Error {
    Error::new(Code::Unavailable, "the sandbox ended during the call; the next call starts it again")
}

/// Converts an error of the guest.
pub(super) fn convert_fault(fault: Fault) -> Error {
    Error::new(fault.why, fault.text)
}

/// Returns the error for an unexpected answer, which cannot happen because guest and host are of one build.
pub(super) fn unexpected_answer() -> Error {
    Error::new(Code::Internal, "the guest returned an unexpected answer")
}

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
