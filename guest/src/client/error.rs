//! The errors of the client.

use std::{fmt, io};

use crate::calls::{Ended, Over};
use crate::frame::Violation;
use crate::message::Fault;

/// Why a connection or call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The connection could not be established.
    Unreachable(io::Error),
    /// The guest closed the connection instead of accepting it: the token is wrong.
    Rejected,
    /// The guest speaks another version of the protocol.
    Version {
        /// The version of its protocol.
        protocol: u32,
        /// The version of koze that it was built from.
        version: String,
    },
    /// The peer violated a rule of the protocol, which ended the connection.
    Violation(&'static str),
    /// The connection has ended. The guest may or may not have done what was asked.
    Closed,
    /// Nothing arrived in time.
    Timeout,
    /// The call was already answered.
    Answered,
    /// The request cannot be serialized.
    Request(serde_json::Error),
    /// The request is longer than [`MAX_REQUEST`](crate::container::request::MAX_REQUEST).
    TooLong,
    /// The operation failed in the guest.
    Failed(Fault),
    /// The answer is not of the expected type.
    Answer(serde_json::Error),
    /// The input could not be read, or the output could not be written.
    Body(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreachable(error) => write!(to, "cannot connect to the guest: {error}"),
            Error::Rejected => to.write_str("the guest closed the connection: is the token right?"),
            Error::Version { protocol, version } => {
                write!(to, "the guest of koze {version} speaks version {protocol} of the protocol")
            }
            Error::Violation(rule) => write!(to, "the guest violated its protocol: {rule}"),
            Error::Closed => to.write_str("the connection to the guest has ended"),
            Error::Timeout => to.write_str("the guest did not answer in time"),
            Error::Answered => to.write_str("the guest has already answered the call"),
            Error::Request(error) => write!(to, "the request cannot be serialized: {error}"),
            Error::TooLong => to.write_str("the request is too long: write long texts to files first"),
            Error::Failed(fault) => to.write_str(&fault.text),
            Error::Answer(error) => write!(to, "the guest's answer has the wrong type: {error}"),
            Error::Body(error) => write!(to, "cannot pass on input or output: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Unreachable(error) | Error::Body(error) => Some(error),
            Error::Request(error) | Error::Answer(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Violation> for Error {
    fn from(Violation(rule): Violation) -> Self {
        Error::Violation(rule)
    }
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Closed => Error::Closed,
            Ended::Violation(rule) => Error::Violation(rule),
        }
    }
}

impl From<Over> for Error {
    fn from(over: Over) -> Self {
        match over {
            Over::Answered => Error::Answered,
            Over::Ended(ended) => ended.into(),
        }
    }
}
