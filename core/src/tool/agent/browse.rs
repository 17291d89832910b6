//! `browse`.

use std::time::Duration;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::{default_sandbox, existing_sandbox};
use crate::error::Result;
use crate::provider::Provider;
use crate::sandbox::{Command, Sandbox};
use crate::session::Session;
use crate::tool::input::check_range;
use crate::tool::{Reply, Tool};

/// The limits of the program that reads the tables of sockets.
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_OUTPUT: usize = 1 << 20;

/// Exposes a port.
#[derive(Debug)]
pub struct Browse;

/// The input of `browse`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The sandbox that the server runs in.
    #[serde(default = "default_sandbox")]
    sandbox: String,
    /// The port that the server listens on. Some sandboxes reserve port 3000.
    #[cfg_attr(test, schemars(range(min = 1024, max = 65535)))]
    port: u64,
}

impl Tool for Browse {
    const NAME: &'static str = "browse";
    const DESCRIPTION: &'static str =
        "Expose a port of a sandbox. Returns a URL that is valid as long as the sandbox exists.";
    type Input = Input;

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        let port = check_range("port", input.port, 1024..=65535)?;
        let sandbox = existing_sandbox(session, &input.sandbox).await?;
        let url = sandbox.expose(u16::try_from(port).unwrap_or_default()).await?;
        if let Some(observed) = session.find_observer(&input.sandbox) {
            observed.exposed(&url);
        }
        let mut result = serde_json::json!({ "url": url });
        if has_listener(&sandbox, port).await == Some(false) {
            let note =
                format!("nothing listens on port {port} yet: start a server in the background with `&`");
            result["note"] = note.into();
        }
        Reply::ok(result)
    }
}

/// The state of a socket that listens, in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Returns whether a program listens on a port. Returns `None` if the sandbox does not show it.
async fn has_listener<S: Sandbox>(sandbox: &S, port: u64) -> Option<bool> {
    let argv = ["/bin/cat", "/proc/net/tcp", "/proc/net/tcp6"].map(str::to_owned).to_vec();
    let (working_dir, env) = ("/".to_owned(), Vec::new());
    let read = Command { argv, working_dir, env, timeout: TIMEOUT, max_output: MAX_OUTPUT };
    let tables = sandbox.exec(read).await.ok()?.stdout;
    let tables = String::from_utf8_lossy(&tables);
    if tables.is_empty() {
        return None;
    }
    let port = format!(":{port:04X}");
    // A line has a number, the local address, the remote one, and the state.
    let is_listener = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(1).is_some_and(|local| local.ends_with(&port)) && fields.get(3) == Some(&LISTEN)
    };
    Some(tables.lines().any(is_listener))
}
