//! `browse`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::default_sandbox;
use crate::error::Result;
use crate::pool::Pool;
use crate::provider::Provider;
use crate::sandbox::Sandbox;
use crate::tool::input::within;
use crate::tool::{Reply, Tool};

/// Exposes a port.
#[derive(Debug)]
pub struct Browse;

/// What `browse` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The sandbox the server runs in.
    #[serde(default = "default_sandbox")]
    sandbox: String,
    /// The port it listens on. Some sandboxes keep 3000 for themselves.
    #[schemars(range(min = 1024, max = 65535))]
    port: u64,
}

impl Tool for Browse {
    const NAME: &'static str = "browse";
    const DESCRIPTION: &'static str =
        "Give the URL at which a port of a sandbox answers, as long as the sandbox lives.";
    type Input = Input;

    async fn call<P: Provider>(pool: &Pool<P>, input: Input) -> Result<Reply> {
        let port = within("port", input.port, 1024..=65535)?;
        let sandbox = pool.sandbox(&input.sandbox).await?;
        let url = sandbox.expose(u16::try_from(port).unwrap_or_default()).await?;
        if let Some(observed) = pool.observed(&input.sandbox) {
            observed.exposed(&url);
        }
        Reply::ok(serde_json::json!({ "url": url }))
    }
}
