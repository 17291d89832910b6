//! Searches the content of files.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use regex_lite::{Regex, RegexBuilder};
use serde::Serialize;

use super::walk::{Found, Walk, joined};
use crate::error::{Code, Error, Result};
use crate::sandbox::{Place, Sandbox};
use crate::time::Start;
use crate::tool::glob::{compile, turns};

/// The longest pattern, and the largest program that it may become, in bytes.
const LONGEST: usize = 1024;
const LARGEST_REGEX: usize = 1 << 20;
/// How many files are read at the same time, and how many of their bytes.
const AT_ONCE: usize = 16;
const BYTES: u64 = 16 << 20;
/// A larger text is searched on a thread that nothing else waits for.
const SHORT: usize = 256 << 10;
/// How many bytes of a line are returned.
const LINE: usize = 2000;
/// How many paths of files that were not searched are returned.
const SKIPPED: usize = 1000;
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
    /// The size of the largest file to search, in bytes.
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

/// What was found in a file.
enum Searched {
    Matches(Vec<Match>),
    Binary,
}

pub(super) async fn run<S: Sandbox>(sandbox: &S, root: &str, start: &str, grep: &Grep) -> Result<Grepped> {
    let regex = Arc::new(regex(grep)?);
    let include = grep.include.as_deref().map(|include| compile("include", include)).transpose()?;
    let by_name = grep.include.as_deref().is_some_and(|include| !include.contains('/'));
    let wanted = |path: &str| {
        let text = if by_name { path.rsplit('/').next().unwrap_or_default() } else { path };
        include.as_ref().is_none_or(|include| include.is_match(text))
    };
    let began = Start::now();
    let mut walk = Walk::start(sandbox, root, start).await?;
    let mut result = Grepped::default();
    loop {
        let (batch, done) = batch(&mut walk, start, grep.max_file_size, &wanted, &mut result).await?;
        let read = batch.iter().map(|path| sandbox.read(Place { root, path }, 0, grep.max_file_size));
        let read = join_all(read).await;
        for (path, piece) in batch.into_iter().zip(read) {
            let bytes = match piece {
                Ok(piece) => piece.bytes,
                // It was removed meanwhile.
                Err(error) if error.code == Code::NotFound => continue,
                Err(error) if error.code == Code::Unavailable => return Err(error),
                Err(_) => {
                    skip(&mut result.skipped_paths, path);
                    continue;
                }
            };
            // One more than asked for, to know whether there are more.
            let left = grep.max_results + 1 - result.matches.len();
            match search(&regex, &path, bytes, left).await? {
                Searched::Binary => skip(&mut result.skipped_binary_paths, path),
                Searched::Matches(matches) => result.matches.extend(matches),
            }
            if result.matches.len() > grep.max_results {
                result.matches.truncate(grep.max_results);
                result.truncated = true;
                return Ok(result);
            }
        }
        if done {
            return Ok(result);
        }
        if began.elapsed() > DEADLINE {
            result.truncated = true;
            return Ok(result);
        }
    }
}

/// Collects the paths of the next files to read, and whether these are the last ones.
async fn batch<S: Sandbox>(
    walk: &mut Walk<'_, S>,
    start: &str,
    max_file_size: u64,
    wanted: &(dyn Fn(&str) -> bool + Sync),
    result: &mut Grepped,
) -> Result<(Vec<String>, bool)> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < AT_ONCE && bytes < BYTES {
        let Found { path, size, .. } = match walk.next().await? {
            None => return Ok((batch, true)),
            Some(Ok(found)) => found,
            Some(Err(directory)) => {
                skip(&mut result.skipped_paths, joined(start, &directory));
                continue;
            }
        };
        let whole = joined(start, &path);
        // If the walk started at a file, its name counts.
        if !wanted(if path.is_empty() { whole.rsplit('/').next().unwrap_or_default() } else { &path }) {
            continue;
        }
        if size > max_file_size {
            skip(&mut result.skipped_paths, whole);
            continue;
        }
        bytes += size;
        batch.push(whole);
    }
    Ok((batch, false))
}

fn skip(skipped: &mut Vec<String>, path: String) {
    if skipped.len() < SKIPPED {
        skipped.push(path);
    }
}

fn regex(grep: &Grep) -> Result<Regex> {
    let wrong = |why: String| Err(Error::new(Code::InvalidInput, format!("`pattern` {why}")));
    if grep.pattern.is_empty() || grep.pattern.len() > LONGEST {
        return wrong(format!("must have 1 to {LONGEST} bytes"));
    }
    let built =
        RegexBuilder::new(&grep.pattern).case_insensitive(grep.ignore_case).size_limit(LARGEST_REGEX).build();
    built.or_else(|error| wrong(format!("is not a valid regular expression: {error}")))
}

async fn search(regex: &Arc<Regex>, path: &str, bytes: Vec<u8>, most: usize) -> Result<Searched> {
    if bytes.len() <= SHORT {
        return Ok(searched(regex, path, &bytes, most));
    }
    let (regex, path) = (Arc::clone(regex), path.to_owned());
    turns::take(move || searched(&regex, &path, &bytes, most)).await
}

fn searched(regex: &Regex, path: &str, bytes: &[u8], most: usize) -> Searched {
    // As ripgrep decides: no text has a NUL.
    if bytes.contains(&0) {
        return Searched::Binary;
    }
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.is_empty() {
        return Searched::Matches(Vec::new());
    }
    let lines = bytes.split(|byte| *byte == b'\n').zip(1..);
    let matching = lines.filter_map(|(line, line_number)| {
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        let shown = || line[..line.floor_char_boundary(LINE)].to_owned();
        regex.is_match(&line).then(|| Match { path: path.to_owned(), line_number, line: shown() })
    });
    Searched::Matches(matching.take(most).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pattern: &str, text: &[u8]) -> Vec<(u64, String)> {
        let regex = regex(&Grep::new(pattern)).unwrap();
        match searched(&regex, "/f", text, 9) {
            Searched::Binary => panic!("binary"),
            Searched::Matches(matches) => {
                matches.into_iter().map(|one| (one.line_number, one.line)).collect()
            }
        }
    }

    #[test]
    fn lines_are_matched_without_their_ends() {
        assert_eq!(lines("^b$", b"a\r\nb\r\nc"), [(2, "b".to_owned())]);
        assert_eq!(lines("^$", b"a\n\nb\n"), [(2, String::new())], "the last line end begins no line");
        assert_eq!(lines("^$", b""), []);
        assert_eq!(lines("b", b"\xffb"), [(1, "\u{fffd}b".to_owned())]);
        assert_eq!(lines("x", "é".repeat(2000).replace('é', "xé").as_bytes())[0].1.len(), LINE - 2 + 1);
        let nul = regex(&Grep::new("a")).unwrap();
        assert!(matches!(searched(&nul, "/f", b"a\0", 9), Searched::Binary));
    }

    #[test]
    fn patterns_are_checked() {
        for pattern in
            ["", "(", "[z-a]", &"a".repeat(LONGEST + 1), &format!("(?:{}){{999}}", "a".repeat(900))]
        {
            let error = regex(&Grep::new(pattern)).unwrap_err();
            assert_eq!(error.code, Code::InvalidInput, "{pattern:?}");
        }
    }
}
