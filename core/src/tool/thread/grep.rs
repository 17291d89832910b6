//! `grep`.

use koze_protocol::search::Matcher;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::glob::{Pattern, clamp_limit};
use super::place::Given;
use super::walk;
use super::{Told, open_sandbox, to_reply};
use crate::error::{Code, Error, Result};
use crate::provider::Provider;
use crate::sandbox::{End, Include, Match, Sandbox, Search};
use crate::session::Session;
use crate::time::millis;
use crate::tool::{Reply, Scope, Tool};

/// Searches in files.
#[derive(Debug)]
pub struct Grep;

/// The input of `grep`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Explain why you are searching file contents in short words. ALWAYS PROVIDE THIS PARAMETER FIRST.
    #[serde(rename = "description")]
    _description: String,
    /// The string or regex pattern to search for.
    pattern: String,
    /// The absolute file or root directory to search.
    path: String,
    /// Optional glob filter for candidate files, for example `**/*.py`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    glob: Option<String>,
    /// Whether to treat `pattern` as a plain string. Default is False.
    #[serde(default)]
    literal: bool,
    /// Whether matching is case-sensitive. Default is False.
    #[serde(default)]
    case_sensitive: bool,
    /// Maximum number of matching lines to return. Default is 100.
    #[serde(default = "default_results")]
    #[cfg_attr(test, schemars(range(min = 1, max = 500)))]
    max_results: i64,
}

fn default_results() -> i64 {
    100
}

/// The most lines that one call returns.
const MAX_LINES: usize = 500;
/// The longest pattern in bytes.
const MAX_PATTERN: usize = 1024;
/// The largest file that is searched, in bytes.
const LARGEST: u64 = 1_000_000;
/// A file with a NUL in its first bytes is binary.
const SAMPLE: u64 = 8192;
/// Longer lines, in characters, are left out: code that was made shorter for machines.
const MAX_LINE: u64 = 2000;
/// How many characters of a line are shown. A character has at most four bytes.
const SHOWN: usize = 200;

impl Tool for Grep {
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = "Search for matching lines inside a text file or files under a root directory. Returns one PATH:LINE: TEXT per \
        line. A regex matches ASCII classes and has no lookaround.";
    const SCOPE: Scope = Scope::Session;
    type Input = Input;

    fn wrong_input(error: Error) -> Result<Reply> {
        Ok(super::wrong_input(error))
    }

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        Ok(to_reply(search_files(session, input).await))
    }
}

async fn search_files<P: Provider>(session: &Session<P>, input: Input) -> Told {
    let path = &input.path;
    let given = Given::new(path)?;
    let search = to_search(&input)?;
    let sandbox = open_sandbox(session).await?;
    let failed = |error: Error| {
        let named = match error.code {
            Code::NotFound => Some(format!("Directory not found: {path}")),
            Code::PermissionDenied => Some(format!("Permission denied: {path}")),
            _ => None,
        };
        given.failure_text(&error, "Unexpected error searching file contents", named)
    };
    let found = sandbox.search(given.to_place(), &search).await.map_err(failed)?;
    let is_full = match found.end {
        End::Complete => false,
        End::Full => true,
        End::Timeout => return Err(failed(walk::too_long())),
        End::TooMany => return Err(failed(walk::too_many())),
    };
    let root = given.normalized_path();
    let lines: Vec<String> = found.matches.into_iter().map(|found| format_match(&root, found)).collect();
    if lines.is_empty() {
        return Ok(format!("No matches found under {path}"));
    }
    let hint = is_full.then_some("Narrow the path or add a glob filter.");
    Ok(walk::format_results("matches", path, &lines, hint))
}

/// Returns what the sandbox searches for.
fn to_search(input: &Input) -> std::result::Result<Search, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("Invalid regex pattern: {why}");
    if input.pattern.len() > MAX_PATTERN {
        return Err(wrong(&format!("it has more than {MAX_PATTERN} bytes")));
    }
    let most = clamp_limit(input.max_results, default_results(), MAX_LINES);
    let mut search = Search {
        pattern: if input.literal { regex_lite::escape(&input.pattern) } else { input.pattern.clone() },
        ignore_case: !input.case_sensitive,
        include: None,
        skip_ignored: true,
        max_file_size: LARGEST,
        binary_within: SAMPLE,
        max_line_chars: MAX_LINE,
        max_line_bytes: u32::try_from(4 * SHOWN + 4).unwrap_or(u32::MAX),
        max_matches: u32::try_from(most).unwrap_or(u32::MAX),
        max_skipped: 0,
        // As many as there are entries.
        max_directories: walk::ENTRIES as u64 + 1,
        max_entries: walk::ENTRIES as u64,
        timeout_ms: u32::try_from(millis(walk::DEADLINE)).unwrap_or(u32::MAX),
    };
    Matcher::new(&search).map_err(|error| wrong(&error))?;
    let filter = input.glob.as_deref().map(Pattern::read).transpose()?;
    search.include = filter.map(|filter| Include { regex: filter.to_regex(), by_name: false });
    Ok(search)
}

/// Returns the text for a matching line, which is cut after some characters.
fn format_match(root: &str, Match { path, number, text }: Match) -> String {
    let text = match text.char_indices().nth(SHOWN) {
        Some(_) => text.chars().take(SHOWN - 3).collect::<String>() + "...",
        None => text,
    };
    let slash = if path.is_empty() { "" } else { "/" };
    format!("{root}{slash}{path}:{number}: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::memory::Memory;
    use crate::provider::{Profile, Size};
    use crate::sandbox::Write;
    use crate::{Profiles, SessionId};

    const FILE: &str = "/mnt/user-data/workspace/p";

    fn input(pattern: &str) -> Input {
        serde_json::from_value(serde_json::json!({ "description": "d", "pattern": pattern, "path": FILE }))
            .unwrap()
    }

    /// Searches a text in a sandbox in memory. Returns the lines after the first.
    fn found(input: Input, text: &str) -> Vec<String> {
        pollster::block_on(async {
            let profile = Profile::new("a", "debian", Size { memory_mib: 1, disk_mb: 1 });
            let profiles = Profiles::new(vec![profile], "a").unwrap();
            let session = Session::new(Memory::new(), SessionId::new("t", "s").unwrap(), profiles);
            let sandbox = session.sandbox("default").await.unwrap();
            let place = Given::new(FILE).unwrap().to_place();
            sandbox.write(place, text.as_bytes().to_vec(), Write::Replace).await.unwrap();
            let told = search_files(&session, input).await.unwrap();
            told.lines().skip(1).map(|line| line.replace(FILE, "p")).collect()
        })
    }

    #[test]
    fn lines_that_match() {
        let text = "one\r\nTwo tw.\n\nthree\n";
        assert_eq!(found(input("TW"), text), ["p:2: Two tw."]);
        assert_eq!(found(Input { case_sensitive: true, ..input("TW") }, text), [""; 0]);
        assert_eq!(found(input("e$"), text), ["p:1: one", "p:4: three"]);
        assert_eq!(found(Input { literal: true, ..input("w.") }, text), ["p:2: Two tw."]);
        assert_eq!(found(Input { literal: true, ..input("o.*") }, text), [""; 0]);
        assert_eq!(found(input("^$"), text), ["p:3: "]);
        assert_eq!(found(input("e"), "a\0e"), [""; 0], "it is binary");
        for text in ["e".repeat(300), "é".repeat(299) + "e"] {
            let first = text.chars().next().unwrap().to_string();
            assert_eq!(found(input("e"), &text), [format!("p:1: {}...", first.repeat(197))]);
        }
        assert_eq!(found(input("e"), &"é".repeat(200).replacen('é', "e", 1)).len(), 1);
        assert_eq!(found(input("e"), &"e".repeat(2001)), [""; 0]);
        assert_eq!(found(Input { max_results: 10, ..input("e") }, &"e\n".repeat(100)).len(), 11);
        // Longer than one turn.
        let long = format!("{}x{}\n", "a\n".repeat(400_000), "b".repeat(100));
        assert_eq!(found(input("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa|x"), &long).len(), 1);
    }

    #[test]
    fn patterns_that_are_wrong() {
        for pattern in ["(", "a{2000}{2000}", "(?=a)", &"a".repeat(1025)] {
            let error = to_search(&input(pattern)).unwrap_err();
            assert!(error.starts_with("Invalid regex pattern: "), "{pattern}: {error}");
        }
        assert!(to_search(&Input { literal: true, ..input("(") }).is_ok());
    }
}
