//! Finds files of a sandbox by a pattern of paths.
//!
//! | module | job |
//! |---|---|
//! | `pattern` | reads patterns |
//! | `program` | matches paths against them in linear time |
//! | `search` | the state of a search, and its limits |

pub(crate) mod pattern;
mod program;
mod search;

use crate::error::{Code, Error, Result};
use crate::sandbox::{Place, Sandbox};

pub(crate) use self::program::Pattern;
use self::search::{Matcher, Search};

/// The longest pattern in bytes.
const MAX_PATTERN: usize = 1024;

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
pub(crate) async fn find_files<S: Sandbox>(
    sandbox: &S,
    base: &Base<'_>,
    pattern: &str,
) -> Result<(Vec<String>, bool)> {
    let mut search = Search::new(compile_matcher(pattern, base.key)?);
    while let Some(dir) = search.next_directory() {
        let path = join_path(base.path, &dir);
        let entries = match sandbox.list(Place { root: base.root, path: &path }).await {
            Ok(entries) => entries,
            // The result would lack the files of a directory that is too large to list.
            Err(error) if dir.is_empty() || error.code == Code::TooLarge => return Err(error),
            // An unreadable or removed directory has no files; but the start itself must exist.
            Err(_) => continue,
        };
        for link in search.process_entries(dir, entries).await? {
            let path = join_path(base.path, &link);
            let place = Place { root: base.root, path: &path };
            if search.should_keep(&link) && sandbox.read(place, 0, 0).await.is_ok() {
                search.keep_file(link);
            }
            search.in_time()?;
        }
    }
    Ok(search.into_files())
}

/// Checks a pattern of paths relative to a directory. `base` is the key of the input that names that directory.
pub(crate) fn check_pattern(pattern: &str, base: &str) -> Result<()> {
    compile_matcher(pattern, base).map(drop)
}

/// Reads a pattern of paths. `key` is that of the input.
pub(crate) fn compile_pattern(key: &str, pattern: &str) -> Result<Pattern> {
    let wrong = |why: String| Error::new(Code::InvalidInput, format!("`{key}` {why}"));
    if pattern.is_empty() || pattern.contains('\0') || pattern.len() > MAX_PATTERN {
        return Err(wrong(format!("must have 1 to {MAX_PATTERN} bytes and no NUL")));
    }
    pattern::read(pattern).map_err(wrong)
}

/// Reads a pattern of paths relative to a directory. `base` is the key of the input that names that directory.
fn compile_matcher(pattern: &str, base: &str) -> Result<Matcher> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let compiled = compile_pattern("pattern", pattern)?;
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

fn join_path(cwd: &str, path: &str) -> String {
    if path.is_empty() { cwd.to_owned() } else { format!("{cwd}/{path}") }
}
