//! Searches the content of files.

use std::time::Duration;

use koze_protocol::search::Matcher;
use serde::Serialize;

use crate::error::{Code, Error, Result};
use crate::glob;
use crate::sandbox::{End, Include, Place, Sandbox, Search};
use crate::time::millis;

/// The longest pattern in bytes.
const LONGEST: usize = 1024;
/// How many directories a search lists, and how many entries it looks at.
const DIRECTORIES: u64 = 100_000;
const ENTRIES: u64 = 1_000_000;
/// The size of the largest file that can be searched, in bytes.
const LARGEST_FILE: u64 = 1 << 30;
/// How many bytes of a line are returned.
const LINE: u32 = 2000;
/// How many paths of files that were not searched are returned.
const SKIPPED: u32 = 1000;
/// How long a search may take before it returns what it has.
const DEADLINE: Duration = Duration::from_secs(30);

/// A search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grep {
    /// The regular expression, which is matched against each line.
    pub pattern: String,
    /// The file or directory to search. A relative path starts at the workspace's directory.
    pub path: String,
    /// Whether upper and lower case are the same.
    pub ignore_case: bool,
    /// A glob pattern of the files to search: of their paths below `path` if it has a `/`, else of their names.
    pub include: Option<String>,
    /// The maximum number of matches.
    pub max_results: usize,
    /// The size of the largest file to search, in bytes; at most 1 GiB.
    pub max_file_size: u64,
}

impl Grep {
    /// Searches all files of the workspace of at most 10 MB, and returns at most 100 matches.
    pub fn new(pattern: impl Into<String>) -> Self {
        Grep {
            pattern: pattern.into(),
            path: ".".to_owned(),
            ignore_case: false,
            include: None,
            max_results: 100,
            max_file_size: 10_000_000,
        }
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Grepped {
    /// The matching lines, in the order of their files' paths.
    pub matches: Vec<Match>,
    /// The files and directories that were not searched because they are too large or cannot be read; at most 1000.
    pub skipped_paths: Vec<String>,
    /// The binary files, which were not searched; at most 1000.
    pub skipped_binary_paths: Vec<String>,
    /// Whether there may be more matches.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A matching line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Match {
    /// The absolute path of the file.
    pub path: String,
    /// The number of the line; the first one is 1.
    pub line_number: u64,
    /// The line without its end, cut after 2000 bytes. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub line: String,
}

pub(super) async fn search_files<S: Sandbox>(
    sandbox: &S,
    root: &str,
    start: &str,
    grep: &Grep,
) -> Result<Grepped> {
    let found = sandbox.search(Place { root, path: start }, &to_search(grep)?).await?;
    if found.end == End::TooMany {
        let message = format!(
            "there are more than {DIRECTORIES} directories or {ENTRIES} files: pass a directory with fewer of them as `path`"
        );
        return Err(Error::new(Code::TooLarge, message));
    }
    let whole =
        |path: String| if path.is_empty() { start.to_owned() } else { super::join_path(start, &path) };
    let mut matches: Vec<Match> = found
        .matches
        .into_iter()
        .map(|found| Match { path: whole(found.path), line_number: found.number, line: found.text })
        .collect();
    matches.truncate(grep.max_results);
    Ok(Grepped {
        matches,
        skipped_paths: found.skipped.into_iter().map(whole).collect(),
        skipped_binary_paths: found.binary.into_iter().map(whole).collect(),
        truncated: found.end != End::Complete,
    })
}

/// Returns what the sandbox searches for.
fn to_search(grep: &Grep) -> Result<Search> {
    let wrong = |why: String| Error::new(Code::InvalidInput, format!("`pattern` {why}"));
    if grep.pattern.is_empty() || grep.pattern.len() > LONGEST {
        return Err(wrong(format!("must have 1 to {LONGEST} bytes")));
    }
    let max_file_size = grep.max_file_size.min(LARGEST_FILE);
    let mut search = Search {
        pattern: grep.pattern.clone(),
        ignore_case: grep.ignore_case,
        include: None,
        skip_ignored: false,
        max_file_size,
        // As ripgrep decides: no text has a NUL.
        binary_within: max_file_size,
        max_line_chars: max_file_size,
        max_line_bytes: LINE,
        // One more than asked for, to know whether there are more.
        max_matches: u32::try_from(grep.max_results).unwrap_or(u32::MAX).saturating_add(1),
        max_skipped: SKIPPED,
        max_directories: DIRECTORIES,
        max_entries: ENTRIES,
        timeout_ms: u32::try_from(millis(DEADLINE)).unwrap_or(u32::MAX),
    };
    Matcher::new(&search).map_err(|error| wrong(format!("is not a valid regular expression: {error}")))?;
    if let Some(include) = &grep.include {
        let regex = glob::compile_pattern("include", include)?.as_regex().to_owned();
        search.include = Some(Include { regex, by_name: !include.contains('/') });
    }
    Ok(search)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_checked() {
        for pattern in
            ["", "(", "[z-a]", &"a".repeat(LONGEST + 1), &format!("(?:{}){{999}}", "a".repeat(900))]
        {
            let error = to_search(&Grep::new(pattern)).unwrap_err();
            assert_eq!(error.code, Code::InvalidInput, "{pattern:?}");
        }
        let error = to_search(&Grep { include: Some("[".into()), ..Grep::new("a") }).unwrap_err();
        assert_eq!(error.message, "`include` has an unclosed `[`");
    }
}
