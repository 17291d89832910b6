//! `glob`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{default_sandbox, existing_sandbox};
use crate::error::Result;
use crate::glob::{self, Base};
use crate::path::{HOME, absolute};
use crate::provider::Provider;
use crate::session::Session;
use crate::tool::{Reply, Tool};

/// Finds files by a pattern.
#[derive(Debug)]
pub struct Glob;

/// The input of `glob`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The sandbox to search.
    #[serde(default = "default_sandbox")]
    sandbox: String,
    /// The pattern, relative to cwd: `**/*.rs`, `src/{a,b}/[0-9]*`.
    pattern: String,
    /// The directory to search.
    #[serde(default = "default_dir")]
    cwd: String,
}

fn default_dir() -> String {
    HOME.to_owned()
}

/// The result.
#[derive(Debug, Serialize)]
struct Given {
    files: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

impl Tool for Glob {
    const NAME: &'static str = "glob";
    const DESCRIPTION: &'static str = "Find files in a sandbox by a glob pattern. Returns at most 1000 paths, \
        relative to cwd and \
                                       sorted.";
    type Input = Input;

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        let cwd = absolute(&input.cwd)?;
        glob::check_pattern(&input.pattern, "cwd")?;
        let sandbox = existing_sandbox(session, &input.sandbox).await?;
        let base = Base { root: "/", path: &cwd, key: "cwd" };
        let (files, truncated) = glob::find_files(&sandbox, &base, &input.pattern).await?;
        Reply::ok(Given { files, truncated })
    }
}
