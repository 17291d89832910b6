//! Errors that several operations report.

use koze_core::error::{Code, Error};
use koze_guest::message::Fault;

/// Returns the error for a call whose sandbox ended.
pub fn gone_error() -> Error {
    Error::new(Code::Unavailable, "the sandbox ended during the call; the next call starts it again")
}

/// Converts an error of the guest.
pub fn convert_fault(fault: Fault) -> Error {
    Error::new(fault.why, fault.text)
}

/// Returns the error for an unexpected answer, which cannot happen because guest and host are of one build.
pub fn unexpected_answer() -> Error {
    Error::new(Code::Internal, "the guest returned an unexpected answer")
}
