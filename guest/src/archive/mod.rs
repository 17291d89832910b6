//! A directory as a tar archive, and back. The format is [`koze_protocol::tar`]'s.
//!
//! What the guest sends is the archive in pieces, each after its length of four bytes (little-endian). After a length of
//! zero follows a [`Trailer`] as JSON, also after its length: only with it, the archive is whole.

mod pack;
#[cfg(test)]
mod tests;
mod unpack;

use koze_protocol::tar::Contents;
use serde::{Deserialize, Serialize};

pub(crate) use self::pack::pack;
pub(crate) use self::unpack::unpack;
use crate::message::Fault;

/// The maximum length of a piece.
pub const PIECE: usize = 64 << 10;

/// How a stream ends.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trailer {
    /// The archive is whole.
    Ok(Contents),
    /// It is not.
    Failed(Fault),
}
