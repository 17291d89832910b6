//! `glob`.

use std::sync::Arc;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::place::Given;
use super::walk::{self, Found, Target, Walk, find_link_target};
use super::{Told, open_sandbox, to_reply};
use crate::error::{Code, Error, Result};
use crate::glob::{self, pattern};
use crate::provider::Provider;
use crate::sandbox::Kind;
use crate::session::Session;
use crate::tool::{Reply, Scope, Tool};
use crate::turns;

/// Finds files by a pattern.
#[derive(Debug)]
pub struct Glob;

/// The input of `glob`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Explain why you are searching for these paths in short words. ALWAYS PROVIDE THIS PARAMETER FIRST.
    #[serde(rename = "description")]
    _description: String,
    /// The glob pattern to match relative to the root path, for example `**/*.py`. A pattern matches at any depth.
    pattern: String,
    /// The absolute root directory to search under.
    path: String,
    /// Whether matching directories should also be returned. Default is False.
    #[serde(default)]
    include_dirs: bool,
    /// Maximum number of paths to return. Default is 200.
    #[serde(default = "default_results")]
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    max_results: i64,
}

fn default_results() -> i64 {
    200
}

/// The most paths that one call returns.
const MAX_PATHS: usize = 1000;

/// The longest pattern in bytes.
const MAX_PATTERN: usize = 1024;

/// Matching takes time in proportion to the length of the pattern and of the path. This much of their product one turn
/// has, and is done without giving others a turn.
const TURN: usize = 8 << 20;
const AT_ONCE: usize = 256 << 10;

impl Tool for Glob {
    const NAME: &'static str = "glob";
    const DESCRIPTION: &'static str = "Find files or directories that match a glob pattern under a root directory. Returns one absolute path per \
        line.";
    const SCOPE: Scope = Scope::Session;
    type Input = Input;

    fn wrong_input(error: Error) -> Result<Reply> {
        Ok(super::wrong_input(error))
    }

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        Ok(to_reply(find_paths(session, input).await))
    }
}

/// Returns how many results are wanted: a number that is not positive means the default.
pub(super) fn clamp_limit(asked: i64, default: i64, most: usize) -> usize {
    usize::try_from(if asked <= 0 { default } else { asked }).unwrap_or(most).min(most)
}

/// A glob pattern that matches paths from the right, as `pathlib` does.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    glob: Arc<glob::Pattern>,
    length: usize,
}

impl Pattern {
    /// Reads a pattern.
    pub(super) fn read(text: &str) -> std::result::Result<Self, String> {
        let wrong = |why: &str| format!("Invalid glob pattern: `{text}` {why}");
        let relative = text.trim_start_matches("./");
        if relative.is_empty() || text.contains('\0') || text.len() > MAX_PATTERN {
            return Err(format!("Invalid glob pattern: it must have 1 to {MAX_PATTERN} bytes and no NUL"));
        }
        if text.starts_with('/') || text.split('/').any(|part| part == "..") {
            return Err(wrong("must be relative to the root path, without `..`"));
        }
        let read = pattern::read(&format!("**/{relative}")).map_err(|why| wrong(&why))?;
        Ok(Pattern { glob: Arc::new(read), length: relative.len() })
    }

    /// Returns the regular expression for it.
    pub(super) fn to_regex(&self) -> String {
        self.glob.as_regex().to_owned()
    }

    /// Returns whether a path matches.
    fn is_match(&self, path: &str) -> bool {
        self.glob.is_match(path)
    }

    fn estimate_work(&self, path: &str) -> usize {
        (self.length + 1) * (path.len() + 1)
    }
}

async fn find_paths<P: Provider>(session: &Session<P>, input: Input) -> Told {
    let path = &input.path;
    let given = Given::new(path)?;
    let pattern = Pattern::read(&input.pattern)?;
    let most = clamp_limit(input.max_results, default_results(), MAX_PATHS);
    let sandbox = open_sandbox(session).await?;
    let failed = |error: Error| {
        let named = match error.code {
            Code::NotFound => Some(format!("Directory not found: {path}")),
            Code::NotADirectory => Some(format!("Path is not a directory: {path}")),
            Code::PermissionDenied => Some(format!("Permission denied: {path}")),
            _ => None,
        };
        given.failure_text(&error, "Unexpected error searching paths", named)
    };
    let mut walk = Walk::new(&sandbox, given.normalized_path()).await.map_err(failed)?;
    let (mut paths, mut waiting, mut work) = (Vec::new(), Vec::new(), 0);
    loop {
        let found = walk.next().await.map_err(failed)?;
        let is_last = found.is_none();
        if let Some(found) = found.filter(|found| input.include_dirs || found.kind != Kind::Directory) {
            work += pattern.estimate_work(&found.path);
            waiting.push(found);
        }
        if !is_last && work < TURN && waiting.len() < 1000 {
            continue;
        }
        walk.in_time().map_err(failed)?;
        for found in retain_matching(&pattern, std::mem::take(&mut waiting), work).await.map_err(failed)? {
            let absolute = walk.absolute_path(&found.path);
            let is_wanted = match found.kind {
                Kind::Link(_) => match find_link_target(&sandbox, &absolute).await {
                    Target::Outside => false,
                    Target::Directory => input.include_dirs,
                    Target::Other => true,
                },
                _ => true,
            };
            if is_wanted {
                paths.push(absolute);
            }
            if paths.len() == most {
                return Ok(format_paths(path, &paths, true));
            }
        }
        work = 0;
        if is_last {
            return Ok(format_paths(path, &paths, false));
        }
    }
}

/// Returns those that match.
async fn retain_matching(pattern: &Pattern, mut all: Vec<Found>, work: usize) -> Result<Vec<Found>> {
    let pattern = pattern.clone();
    let retain = move || {
        all.retain(|found| pattern.is_match(&found.path));
        all
    };
    if work <= AT_ONCE { Ok(retain()) } else { turns::take(retain).await }
}

fn format_paths(root: &str, paths: &[String], truncated: bool) -> String {
    if paths.is_empty() {
        return format!("No files matched under {root}");
    }
    let lines = paths.iter().enumerate().map(|(index, path)| format!("{}. {path}", index + 1));
    let hint = truncated.then_some("Narrow the path or pattern to see fewer matches.");
    walk::format_results("paths", root, &lines.collect::<Vec<_>>(), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_from_the_right() {
        for (pattern, matching, other) in [
            ("*.py", &["a.py", "a/b.py", "a/b/c.py"][..], &["a.pyc", "a.py/b"][..]),
            ("**/*.py", &["a.py", "a/b.py"], &["a.txt"]),
            ("src/*.py", &["src/a.py", "x/src/a.py"], &["src/a/b.py", "xsrc/a.py"]),
            ("src/**/*.py", &["src/a.py", "x/src/a/b.py"], &["a.py"]),
            ("./a", &["a", "b/a"], &["ba"]),
        ] {
            let read = Pattern::read(pattern).unwrap();
            for path in matching {
                assert!(read.is_match(path), "{pattern} {path}");
            }
            for path in other {
                assert!(!read.is_match(path), "{pattern} {path}");
            }
        }
        for pattern in ["", "/a", "../a", "a/..", "a\0", "[", &"a".repeat(1025)] {
            assert!(Pattern::read(pattern).unwrap_err().starts_with("Invalid glob pattern: "), "{pattern}");
        }
    }

    #[test]
    fn numbers_of_results() {
        assert_eq!([-1, 0, 7, 5000].map(|asked| clamp_limit(asked, 200, 1000)), [200, 200, 7, 1000]);
    }
}
