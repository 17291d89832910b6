//! The sandboxes of a session on this machine.
//!
//! Sandboxes end with the process that runs them. To keep them across commands, each session has a supervisor, a
//! background process that the first command starts. It exits when it has been idle for a while and all its sandboxes
//! sleep. Commands connect to a socket in the project's state directory, with one connection per call; closing the
//! connection cancels the call.
//!
//! | module | job |
//! |---|---|
//! | [`state`], `short_path` | the state directory; short paths of its sockets |
//! | `program` | how a supervisor is started, and recognizes its own program |
//! | [`message`] | the messages between commands and the supervisor |
//! | [`wire`] | sends them, and file descriptors |
//! | [`client`] | connects commands to the supervisor, and starts it if necessary |
//! | [`supervisor`] | the background process |
//! | `host` | its sandboxes, which the connections share |
//! | `files`, `trees` | files and trees that commands copy into sandboxes and out of them |
//! | [`http`] | HTTP requests for the sandboxes |
//! | [`exec`], [`processes`] | programs that commands run in sandboxes; those that run there |
//! | `shell` | the login shell of a sandbox |

pub mod client;
mod descriptors;
pub mod exec;
pub mod files;
mod host;
pub mod http;
pub mod message;
pub mod processes;
mod program;
mod shell;
mod short_path;
pub mod state;
pub mod supervisor;
pub mod trees;
pub mod wire;

pub use client::Client;
pub use state::State;

use koze_core::{Code, Error, Result, SessionId};

/// The only tenant of this machine's sandboxes.
const TENANT: &str = "local";

/// Returns the session of a name.
///
/// # Errors
/// Returns [`koze_core::Code::InvalidInput`] if the name is invalid.
pub fn session(name: &str) -> Result<SessionId> {
    SessionId::new(TENANT, name)
}

/// Returns the error for a sandbox that does not exist, with those that do.
pub fn no_sandbox_among(name: &str, names: &[String]) -> Error {
    let hint = if names.is_empty() {
        "it has none, and `koze call` creates one on first use".to_owned()
    } else {
        let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("it has {}", quoted.join(", "))
    };
    Error::new(Code::NotFound, format!("there is no sandbox `{name}` in this session: {hint}"))
}

/// Returns the error for a sandbox that does not exist.
pub fn no_sandbox(name: &str) -> Error {
    Error::new(Code::NotFound, format!("there is no sandbox `{name}` in this session"))
}
