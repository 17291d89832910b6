//! `transfer`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::Result;
use crate::path::absolute;
use crate::pool::Pool;
use crate::provider::Provider;
use crate::tool::{Reply, Tool};

/// Copies between sandboxes.
#[derive(Debug)]
pub struct Transfer;

/// What `transfer` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The sandbox to copy from.
    from_sandbox: String,
    /// The file or directory in it.
    from_path: String,
    /// The sandbox to copy to.
    to_sandbox: String,
    /// Where it is to be there, under this very name.
    to_path: String,
    /// Whether a directory is copied with all that is in it.
    #[serde(default)]
    recursive: bool,
}

impl Tool for Transfer {
    const NAME: &'static str = "transfer";
    const DESCRIPTION: &'static str =
        "Copy a file, or with recursive a directory, from one sandbox to another. Gives the bytes copied.";
    type Input = Input;

    async fn call<P: Provider>(pool: &Pool<P>, input: Input) -> Result<Reply> {
        // A path that is none makes no sandbox.
        let (from_path, to_path) = (absolute(&input.from_path)?, absolute(&input.to_path)?);
        let from = pool.sandbox(&input.from_sandbox).await?;
        let to = pool.sandbox(&input.to_sandbox).await?;
        let bytes = crate::transfer(&from, &from_path, &to, &to_path, input.recursive).await?;
        Reply::ok(json!({ "ok": true, "bytes": bytes }))
    }
}
