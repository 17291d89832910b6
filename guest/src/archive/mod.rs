//! A directory as a tar archive, and back. The format is [`koze_protocol::tar`]'s.
//!
//! The guest sends the archive in pieces, each preceded by its length in four bytes (little-endian). A length of zero is
//! followed by a [`Trailer`] as JSON, also preceded by its length. An archive without it is incomplete.
//!
//! A host on the same machine can receive the files as descriptors instead: see [`Handed`]. It lists the files that it already has, and the
//! guest leaves out those that have not changed.

#[cfg(target_os = "linux")]
mod changes;
#[cfg(target_os = "linux")]
mod hand_over;
#[cfg(target_os = "linux")]
mod pack;
#[cfg(all(test, target_os = "linux"))]
mod tests;
#[cfg(target_os = "linux")]
mod unpack;
#[cfg(target_os = "linux")]
mod walk;

use koze_protocol::tar::Contents;
use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
pub use self::changes::{Known, Mark};
#[cfg(target_os = "linux")]
pub(crate) use self::hand_over::hand_over;
#[cfg(target_os = "linux")]
pub use self::hand_over::{Entry, Handed};
#[cfg(target_os = "linux")]
pub use self::pack::pack;
#[cfg(target_os = "linux")]
pub(crate) use self::unpack::unpack;
use crate::message::Fault;

/// The maximum length of a piece.
pub const PIECE: usize = 64 << 10;

/// The end of a stream.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trailer {
    /// The archive is complete.
    Ok(Contents),
    /// The archive is incomplete.
    Failed(Fault),
}
