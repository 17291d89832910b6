//! The sandboxes of a session on this machine.
//!
//! Sandboxes end with the process that runs them. So that they live on from one command to the next, each session has
//! a supervisor, a process in the background: the first command starts it, and it ends when nobody has needed it for a
//! while and all its sandboxes sleep. Commands reach it over a socket in the project's state directory, one connection
//! for one call; a connection that is closed early cancels its call. `koze mcp` hands the streams of its client over, and is
//! one long call.
//!
//! | module | job |
//! |---|---|
//! | [`state`] | the state directory |
//! | `trust` | whether it is this user's alone |
//! | [`wire`] | what commands and supervisor say to each other |
//! | [`client`] | a command's side; starts the supervisor where there is none |
//! | [`supervisor`] | the process in the background |
//! | `mcp` | a client of the Model Context Protocol that it serves itself |

pub mod client;
mod descriptors;
mod mcp;
pub mod state;
pub mod supervisor;
mod trust;
pub mod wire;

pub use client::Client;
pub use state::State;

use koze_core::{Code, Error, Result, SessionId};

/// Whose sandboxes those of this machine are: there is nobody else.
const TENANT: &str = "local";

/// The session of a name.
///
/// # Errors
/// [`koze_core::Code::InvalidInput`] where it is no name.
pub fn session(name: &str) -> Result<SessionId> {
    SessionId::new(TENANT, name)
}

/// What is said of a sandbox that nobody has made.
pub fn no_sandbox(name: &str) -> Error {
    Error::new(Code::NotFound, format!("there is no sandbox `{name}` in this session"))
}
