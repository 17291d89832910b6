//! `transfer`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::existing_sandbox;
use crate::error::Result;
use crate::id::SandboxName;
use crate::path::absolute;
use crate::provider::Provider;
use crate::session::Session;
use crate::tool::{Reply, Scope, Tool};

/// Copies between sandboxes.
#[derive(Debug)]
pub struct Transfer;

/// The input of `transfer`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The sandbox to copy from.
    from_sandbox: String,
    /// The file or directory to copy.
    from_path: String,
    /// The sandbox to copy to.
    to_sandbox: String,
    /// The full destination path, including the new name.
    to_path: String,
    /// Copy a directory with everything in it.
    #[serde(default)]
    recursive: bool,
}

impl Tool for Transfer {
    const NAME: &'static str = "transfer";
    const DESCRIPTION: &'static str =
        "Copy a file, or a directory with recursive, from one sandbox to another. Returns the bytes copied.";
    const SCOPE: Scope = Scope::Session;
    type Input = Input;

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        // Validate paths and names before creating a sandbox.
        let (from_path, to_path) = (absolute(&input.from_path)?, absolute(&input.to_path)?);
        SandboxName::new(&input.to_sandbox)?;
        let from = existing_sandbox(session, &input.from_sandbox).await?;
        let to = session.sandbox(&input.to_sandbox).await?;
        let bytes = crate::transfer(&from, &from_path, &to, &to_path, input.recursive).await?;
        Reply::ok(json!({ "ok": true, "bytes": bytes }))
    }
}
