//! The Model Context Protocol server, and the sandboxes of a session, which it shares with the HTTP routes.

mod apps;
pub(crate) mod offering;
pub(crate) mod offers;
pub(crate) mod sealed;
pub(crate) mod server;
pub(crate) mod stdio;
pub(crate) mod supervised;
pub(crate) mod tasks;
mod transport;

/// The maximum size of a request in bytes. It limits the files that a model can write.
pub(crate) const MAX_REQUEST: usize = 64 << 20;
