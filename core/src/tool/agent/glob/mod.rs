//! `glob`.

pub(in crate::tool) mod pattern;
mod search;
pub(in crate::tool) mod turns;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::default_sandbox;
use crate::error::{Code, Error, Result};
use crate::path::{HOME, absolute, anywhere};
use crate::provider::Provider;
use crate::sandbox::Sandbox;
use crate::session::Session;
use crate::tool::{Reply, Tool};

use self::search::{Matcher, Search};

/// Finds files by a pattern.
#[derive(Debug)]
pub struct Glob;

/// The input of `glob`.
#[derive(Debug, Deserialize, JsonSchema)]
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

/// The longest pattern in bytes.
const LONGEST: usize = 1024;

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
        let pattern = input.pattern.strip_prefix("./").unwrap_or(&input.pattern);
        let mut search = Search::new(matcher(pattern)?);
        let sandbox = session.sandbox(&input.sandbox).await?;
        while let Some(dir) = search.next() {
            let entries = match sandbox.list(anywhere(&joined(&cwd, &dir))).await {
                Ok(entries) => entries,
                // The result would lack the files of a directory that is too large to list.
                Err(error) if dir.is_empty() || error.code == Code::TooLarge => return Err(error),
                // An unreadable or removed directory has no files; but cwd itself must exist.
                Err(_) => continue,
            };
            for link in search.look(dir, entries).await? {
                if search.wants(&link) && sandbox.read(anywhere(&joined(&cwd, &link)), 0, 0).await.is_ok() {
                    search.keep(link);
                }
                search.in_time()?;
            }
        }
        let (files, truncated) = search.done();
        Reply::ok(Given { files, truncated })
    }
}

fn matcher(pattern: &str) -> Result<Matcher> {
    let wrong = |why: String| Error::new(Code::InvalidInput, format!("`pattern` {why}"));
    if pattern.is_empty() || pattern.contains('\0') || pattern.len() > LONGEST {
        return Err(wrong(format!("must have 1 to {LONGEST} bytes and no NUL")));
    }
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err(wrong(
            "must be relative to `cwd`, without `..`: pass another directory as `cwd`".to_owned(),
        ));
    }
    let regex = pattern::read(pattern).map_err(wrong)?;
    // Without `**`, matches are no deeper than the pattern has components.
    let depth = if pattern.contains("**") { usize::MAX } else { pattern.split('/').count() };
    Ok(Matcher { regex, length: pattern.len(), depth })
}

fn joined(cwd: &str, path: &str) -> String {
    if path.is_empty() { cwd.to_owned() } else { format!("{cwd}/{path}") }
}
