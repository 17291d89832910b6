//! The Model Context Protocol server, independent of the process that runs its tools.

pub(crate) mod offering;
pub(crate) mod sealed;
pub(crate) mod server;
pub(crate) mod stdio;
mod transport;

/// The maximum size of a request in bytes. It limits the files that a model can write.
pub(crate) const MAX_REQUEST: usize = 64 << 20;
