//! The Model Context Protocol server, independent of the process that runs its tools.
//!
//! A client that starts `koze mcp` talks directly to the supervisor of the session: `koze mcp` passes its streams on,
//! so calls take no detour through another process. See [`crate::session`].

pub(crate) mod gate;
pub(crate) mod offering;
pub(crate) mod sealed;
pub(crate) mod server;
pub(crate) mod stdio;
mod transport;

/// The maximum size of a request in bytes. It limits the files that a model can write.
pub(crate) const MAX_REQUEST: usize = 64 << 20;
