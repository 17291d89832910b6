//! `browse`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::default_sandbox;
use crate::error::Result;
use crate::provider::Provider;
use crate::sandbox::Sandbox;
use crate::session::Session;
use crate::tool::input::within;
use crate::tool::{Reply, Tool};

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
        let port = within("port", input.port, 1024..=65535)?;
        let sandbox = session.sandbox(&input.sandbox).await?;
        let url = sandbox.expose(u16::try_from(port).unwrap_or_default()).await?;
        if let Some(observed) = session.observed(&input.sandbox) {
            observed.exposed(&url);
        }
        Reply::ok(serde_json::json!({ "url": url }))
    }
}
