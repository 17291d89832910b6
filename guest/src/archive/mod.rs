//! A directory as a tar archive, and back. The format is [`koze_protocol::tar`]'s.
//!
//! What the guest sends is the archive in pieces, each after its length of four bytes (little-endian). After a length of
//! zero follows a [`Trailer`] as JSON, also after its length: only with it, the archive is whole.
//!
//! A host on the same machine may take the files themselves instead: see [`Handed`]. It tells what it has of an earlier time, and unchanged
//! files are left out.

mod changes;
mod hand_over;
mod pack;
#[cfg(test)]
mod tests;
mod unpack;
mod walk;

use koze_protocol::tar::Contents;
use serde::{Deserialize, Serialize};

pub use self::changes::{Known, Mark};
pub(crate) use self::hand_over::hand_over;
pub use self::hand_over::{Entry, Handed};
pub use self::pack::pack;
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
