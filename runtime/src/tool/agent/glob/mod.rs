//! `glob`.

mod pattern;

use regex_lite::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::default_sandbox;
use crate::error::{Code, Error, Result};
use crate::path::{HOME, absolute, anywhere};
use crate::pool::Pool;
use crate::provider::Provider;
use crate::sandbox::{Kind, Sandbox};

use crate::tool::{Reply, Tool};

/// Finds files by a pattern.
#[derive(Debug)]
pub struct Glob;

/// What `glob` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The sandbox to look in.
    #[serde(default = "default_sandbox")]
    sandbox: String,
    /// The pattern, relative to cwd: `**/*.rs`, `src/{a,b}/[0-9]*`.
    pattern: String,
    /// The directory to look in.
    #[serde(default = "default_dir")]
    cwd: String,
}

fn default_dir() -> String {
    HOME.to_owned()
}

/// How many files a model gets.
const MOST: usize = 1000;

/// How many directories are looked into.
const DIRECTORIES: usize = 100_000;

/// What it gives.
#[derive(Debug, Serialize)]
struct Given {
    files: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

impl Tool for Glob {
    const NAME: &'static str = "glob";
    const DESCRIPTION: &'static str = "Find the files of a sandbox whose path matches a pattern. Gives their paths relative to cwd, \
                                       sorted, 1000 at most.";
    type Input = Input;

    async fn call<P: Provider>(pool: &Pool<P>, input: Input) -> Result<Reply> {
        let cwd = absolute(&input.cwd)?;
        let pattern = input.pattern.strip_prefix("./").unwrap_or(&input.pattern);
        let matcher = matcher(pattern)?;
        let sandbox = pool.sandbox(&input.sandbox).await?;
        // Below a pattern without `**` nothing is deeper than it has parts.
        let depth = if pattern.contains("**") { usize::MAX } else { pattern.split('/').count() };
        let mut files = Vec::new();
        let mut left = vec![String::new()];
        let mut looked = 0;
        while let Some(dir) = left.pop() {
            let entries = match sandbox.list(anywhere(&joined(&cwd, &dir))).await {
                Ok(entries) => entries,
                // One that may not be read, or has gone meanwhile, has no files; but cwd itself has to be there.
                Err(_) if !dir.is_empty() => continue,
                Err(error) => return Err(error),
            };
            looked += 1;
            for entry in entries {
                let path = if dir.is_empty() { entry.name } else { format!("{dir}/{}", entry.name) };
                let found = match entry.stat.kind {
                    Kind::Directory => {
                        if looked < DIRECTORIES && path.split('/').count() < depth {
                            left.push(path);
                        }
                        continue;
                    }
                    Kind::File => matcher.is_match(&path),
                    // What leads to a file is one.
                    Kind::Link(_) => {
                        matcher.is_match(&path)
                            && sandbox.read(anywhere(&joined(&cwd, &path)), 0, 0).await.is_ok()
                    }
                    Kind::Other => false,
                };
                if found {
                    files.push(path);
                }
            }
        }
        files.sort_unstable();
        let truncated = files.len() > MOST || looked >= DIRECTORIES;
        files.truncate(MOST);
        Reply::ok(Given { files, truncated })
    }
}

fn matcher(pattern: &str) -> Result<Regex> {
    let wrong = |why: String| Error::new(Code::InvalidInput, format!("`pattern` {why}"));
    if pattern.is_empty() || pattern.contains('\0') || pattern.len() > 4096 {
        return Err(wrong("has 1 to 4096 bytes, and no NUL".to_owned()));
    }
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err(wrong("is relative to `cwd`, without `..`: name the directory there".to_owned()));
    }
    pattern::read(pattern).map_err(wrong)
}

fn joined(cwd: &str, path: &str) -> String {
    if path.is_empty() { cwd.to_owned() } else { format!("{cwd}/{path}") }
}
