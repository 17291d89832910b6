//! The Model Context Protocol: its server, apart from what it runs on.
//!
//! A client that starts `koze mcp` talks to the supervisor of the session itself: `koze mcp` hands its streams over, and a
//! call then takes no other way than from the client to the sandboxes. See [`crate::session`].

pub(crate) mod gate;
pub(crate) mod offering;
pub(crate) mod once;
pub(crate) mod server;
pub(crate) mod stdio;
mod transport;

/// The largest request in bytes: a file that a model writes, as JSON.
pub(crate) const MAX_REQUEST: usize = 64 << 20;
