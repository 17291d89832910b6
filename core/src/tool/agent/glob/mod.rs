//! `glob`.

pub(in crate::tool) mod pattern;
mod program;
mod search;
pub(crate) mod turns;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{default_sandbox, existing_sandbox};
use crate::error::{Code, Error, Result};
use crate::path::{HOME, absolute};
use crate::provider::Provider;
use crate::sandbox::{Place, Sandbox};
use crate::session::Session;
use crate::tool::{Reply, Tool};

pub(crate) use self::program::Pattern;
use self::search::{Matcher, Search};

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

/// The longest pattern in bytes.
const MAX_PATTERN: usize = 1024;

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
        matcher(&input.pattern, "cwd")?;
        let sandbox = existing_sandbox(session, &input.sandbox).await?;
        let base = Base { root: "/", path: &cwd, key: "cwd" };
        let (files, truncated) = search(&sandbox, &base, &input.pattern).await?;
        Reply::ok(Given { files, truncated })
    }
}

/// Where a search starts.
pub(crate) struct Base<'a> {
    /// The directory that it is confined to.
    pub(crate) root: &'a str,
    /// The directory to search.
    pub(crate) path: &'a str,
    /// The key of the input that names that directory.
    pub(crate) key: &'static str,
}

/// Finds files. Returns at most 1000 paths, sorted and relative to the start, and whether there are more.
pub(crate) async fn search<S: Sandbox>(
    sandbox: &S,
    base: &Base<'_>,
    pattern: &str,
) -> Result<(Vec<String>, bool)> {
    let mut search = Search::new(matcher(pattern, base.key)?);
    while let Some(dir) = search.next() {
        let path = joined(base.path, &dir);
        let entries = match sandbox.list(Place { root: base.root, path: &path }).await {
            Ok(entries) => entries,
            // The result would lack the files of a directory that is too large to list.
            Err(error) if dir.is_empty() || error.code == Code::TooLarge => return Err(error),
            // An unreadable or removed directory has no files; but the start itself must exist.
            Err(_) => continue,
        };
        for link in search.look(dir, entries).await? {
            let path = joined(base.path, &link);
            let place = Place { root: base.root, path: &path };
            if search.wants(&link) && sandbox.read(place, 0, 0).await.is_ok() {
                search.keep(link);
            }
            search.in_time()?;
        }
    }
    Ok(search.done())
}

/// Reads a pattern of paths. `key` is that of the input.
pub(crate) fn compile(key: &str, pattern: &str) -> Result<Pattern> {
    let wrong = |why: String| Error::new(Code::InvalidInput, format!("`{key}` {why}"));
    if pattern.is_empty() || pattern.contains('\0') || pattern.len() > MAX_PATTERN {
        return Err(wrong(format!("must have 1 to {MAX_PATTERN} bytes and no NUL")));
    }
    pattern::read(pattern).map_err(wrong)
}

fn matcher(pattern: &str, base: &str) -> Result<Matcher> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let compiled = compile("pattern", pattern)?;
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        let message = format!(
            "`pattern` must be relative to `{base}`, without `..`: pass another directory as `{base}`"
        );
        return Err(Error::new(Code::InvalidInput, message));
    }
    // Without `**`, matches are no deeper than the pattern has components.
    let depth = if pattern.contains("**") { usize::MAX } else { pattern.split('/').count() };
    Ok(Matcher { pattern: compiled, length: pattern.len(), depth })
}

fn joined(cwd: &str, path: &str) -> String {
    if path.is_empty() { cwd.to_owned() } else { format!("{cwd}/{path}") }
}
