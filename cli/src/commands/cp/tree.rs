//! Trees as the streams of the guest.

pub(super) use crate::provider::trees::{pack, unpack};
use crate::session::message::Way;

/// How a tree comes into a sandbox.
pub(super) const IN: Way = Way::In;
/// How it leaves one.
pub(super) const OUT: Way = Way::Out;
