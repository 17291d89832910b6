//! `ls`, `glob` and `grep`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Operation;
use crate::error::Result;
use crate::sandbox::Sandbox;
use crate::tool::{Reply, input};
use crate::workspace::{Capability, Listed, Workspace};

fn default_path() -> String {
    ".".to_owned()
}

pub(super) struct Ls;

/// The input of `ls`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Directory {
    /// The directory to list.
    #[serde(default = "default_path")]
    path: String,
}

/// The most entries that one call returns.
const MOST: usize = 10_000;

#[derive(Debug, Serialize)]
struct Entries {
    entries: Vec<Listed>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

impl Operation for Ls {
    const NAME: &'static str = "ls";
    const DESCRIPTION: &'static str = "List a directory. Returns at most 10000 entries, sorted by name, with the name, path, type \
        (file, directory, symlink or other) and size in bytes of each.";
    const CAPABILITY: Capability = Capability::Fs;
    type Input = Directory;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: Directory) -> Result<Reply> {
        let mut entries = workspace.fs()?.ls(&input.path).await?;
        let truncated = entries.len() > MOST;
        entries.truncate(MOST);
        Reply::ok(Entries { entries, truncated })
    }
}

pub(super) struct Glob;

/// The input of `glob`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Pattern {
    /// The pattern, relative to path: `**/*.rs`, `src/{a,b}/[0-9]*`.
    pattern: String,
    /// The directory to search.
    #[serde(default = "default_path")]
    path: String,
}

#[derive(Debug, Serialize)]
struct Paths {
    paths: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

impl Operation for Glob {
    const NAME: &'static str = "glob";
    const DESCRIPTION: &'static str =
        "Find files by a glob pattern. Returns at most 1000 absolute paths, sorted.";
    const CAPABILITY: Capability = Capability::Fs;
    type Input = Pattern;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: Pattern) -> Result<Reply> {
        let (paths, truncated) = workspace.fs()?.glob(&input.pattern, &input.path).await?;
        Reply::ok(Paths { paths, truncated })
    }
}

pub(super) struct Grep;

/// The input of `grep`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Searched {
    /// The regular expression to search for in each line.
    pattern: String,
    /// The file or directory to search.
    #[serde(default = "default_path")]
    path: String,
    /// Ignore the difference between upper and lower case.
    #[serde(default)]
    ignore_case: bool,
    /// A glob pattern of the files to search: `*.rs`, or `src/**/*.rs`, which is relative to path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    include: Option<String>,
    /// The maximum number of matches.
    #[serde(default = "default_results")]
    #[cfg_attr(test, schemars(range(min = 1, max = 10_000)))]
    max_results: u64,
    /// The size of the largest file to search, in MB.
    #[serde(default = "default_size")]
    #[cfg_attr(test, schemars(range(min = 1, max = 16)))]
    max_file_size_mb: u64,
}

fn default_results() -> u64 {
    100
}

fn default_size() -> u64 {
    10
}

impl Operation for Grep {
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = "Search the content of files. Returns the matching lines with their paths and line numbers, \
        and the paths of files that were skipped because they are too large, unreadable or binary. If truncated is true, there \
        may be more matches.";
    const CAPABILITY: Capability = Capability::Fs;
    type Input = Searched;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: Searched) -> Result<Reply> {
        let max_results = input::check_range("max_results", input.max_results, 1..=10_000)?;
        let size = input::check_range("max_file_size_mb", input.max_file_size_mb, 1..=16)?;
        let grep = crate::workspace::Grep {
            pattern: input.pattern,
            path: input.path,
            ignore_case: input.ignore_case,
            include: input.include,
            max_results: usize::try_from(max_results).unwrap_or(usize::MAX),
            max_file_size: size * 1_000_000,
        };
        Reply::ok(workspace.fs()?.grep(&grep).await?)
    }
}
