//! `grep`.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use regex_lite::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::glob::{Pattern, wanted};
use super::place::{Given, confined};
use super::walk::{self, Found, Walk};
use super::{Told, reply, sandbox};
use crate::error::{Code, Error, Result};
use crate::provider::Provider;
use crate::sandbox::{Kind, Sandbox};
use crate::session::Session;
use crate::tool::agent::glob::turns;
use crate::tool::{Reply, Scope, Tool};

/// Searches in files.
#[derive(Debug)]
pub struct Grep;

/// The input of `grep`.
#[derive(Debug, Deserialize, JsonSchema)]
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
    #[schemars(with = "String")]
    glob: Option<String>,
    /// Whether to treat `pattern` as a plain string. Default is False.
    #[serde(default)]
    literal: bool,
    /// Whether matching is case-sensitive. Default is False.
    #[serde(default)]
    case_sensitive: bool,
    /// Maximum number of matching lines to return. Default is 100.
    #[serde(default = "default_results")]
    #[schemars(range(min = 1, max = 500))]
    max_results: i64,
}

fn default_results() -> i64 {
    100
}

/// The most lines that one call returns.
const MAX_LINES: usize = 500;
/// The longest pattern, and the largest program that a pattern may become, in bytes.
const MAX_PATTERN: usize = 1024;
const LARGEST_REGEX: usize = 1 << 20;
/// The largest file that is searched, in bytes.
const LARGEST: u64 = 1_000_000;
/// A file with a NUL in its first bytes is binary.
const SAMPLE: usize = 8192;
/// Longer lines, in characters, are left out: code that was made shorter for machines.
const MAX_LINE: usize = 2000;
/// How many characters of a line are shown.
const SHOWN: usize = 200;
/// How many files, and how many of their bytes, are read before they are searched; and how many at the same time.
const FILES: usize = 64;
const BYTES: u64 = 8 << 20;
const AT_ONCE: usize = 16;
/// Searching takes time in proportion to the length of the pattern and of the text. This much of their product one turn
/// has, and is done without giving others a turn.
const TURN: usize = 8 << 20;
const SHORT: usize = 256 << 10;

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
        Ok(reply(search(session, input).await))
    }
}

/// A pattern, ready to be searched for.
#[derive(Debug, Clone)]
struct Needle {
    regex: Arc<Regex>,
    length: usize,
}

impl Needle {
    fn read(input: &Input) -> std::result::Result<Self, String> {
        let wrong = |why: &dyn std::fmt::Display| format!("Invalid regex pattern: {why}");
        if input.pattern.len() > MAX_PATTERN {
            return Err(wrong(&format!("it has more than {MAX_PATTERN} bytes")));
        }
        let text = if input.literal { regex_lite::escape(&input.pattern) } else { input.pattern.clone() };
        let mut builder = RegexBuilder::new(&text);
        let regex = builder.case_insensitive(!input.case_sensitive).size_limit(LARGEST_REGEX).build();
        Ok(Needle { regex: Arc::new(regex.map_err(|error| wrong(&error))?), length: text.len() })
    }
}

async fn search<P: Provider>(session: &Session<P>, input: Input) -> Told {
    let path = &input.path;
    let given = Given::new(path)?;
    let needle = Needle::read(&input)?;
    let filter = input.glob.as_deref().map(Pattern::read).transpose()?;
    let most = wanted(input.max_results, default_results(), MAX_LINES);
    let sandbox = sandbox(session).await?;
    let failed = |error: Error| {
        let named = match error.code {
            Code::NotFound => Some(format!("Directory not found: {path}")),
            Code::PermissionDenied => Some(format!("Permission denied: {path}")),
            _ => None,
        };
        given.failed(&error, "Unexpected error searching file contents", named)
    };
    let root = given.shown();
    let mut lines = Lines { lines: Vec::new(), most };
    let mut walk = match Walk::new(&sandbox, root.clone()).await {
        Ok(walk) => walk,
        // The path is a file.
        Err(error) if error.code == Code::NotADirectory => {
            let name = root.rsplit('/').next().unwrap_or_default();
            if filter.is_none_or(|filter| filter.matches(name)) {
                let bytes = sandbox.read(given.place(), 0, LARGEST + 1).await.map_err(failed)?.bytes;
                lines.search(&needle, &root, bytes).await.map_err(failed)?;
            }
            return Ok(lines.told(path));
        }
        Err(error) => return Err(failed(error)),
    };
    let is_candidate = |found: &Found| {
        found.kind == Kind::File
            && found.size <= LARGEST
            && filter.as_ref().is_none_or(|filter| filter.matches(&found.path))
    };
    let (mut waiting, mut bytes) = (Vec::new(), 0);
    loop {
        let found = walk.next().await.map_err(failed)?;
        let is_last = found.is_none();
        if let Some(found) = found.filter(is_candidate) {
            bytes += found.size;
            waiting.push(walk.absolute(&found.path));
        }
        if !is_last && waiting.len() < FILES && bytes < BYTES {
            continue;
        }
        let read = stream::iter(std::mem::take(&mut waiting)).map(async |path: String| {
            let piece = sandbox.read(confined(&path), 0, LARGEST + 1).await;
            (path, piece)
        });
        let mut read = read.buffered(AT_ONCE);
        while let Some((path, piece)) = read.next().await {
            walk.in_time().map_err(failed)?;
            // It may be gone, or closed to the sandbox's user.
            if let Ok(piece) = piece {
                lines.search(&needle, &path, piece.bytes).await.map_err(failed)?;
            }
            if lines.is_full() {
                return Ok(lines.told(input.path.as_str()));
            }
        }
        bytes = 0;
        if is_last {
            return Ok(lines.told(path));
        }
    }
}

/// The lines that were found.
struct Lines {
    lines: Vec<String>,
    most: usize,
}

impl Lines {
    fn is_full(&self) -> bool {
        self.lines.len() >= self.most
    }

    /// Searches in a file.
    async fn search(&mut self, needle: &Needle, path: &str, bytes: Vec<u8>) -> Result<()> {
        if bytes.len() as u64 > LARGEST || bytes[..bytes.len().min(SAMPLE)].contains(&0) {
            return Ok(());
        }
        let text: Arc<str> = String::from_utf8_lossy(&bytes).into();
        let (mut at, mut number) = (0, 0);
        while at < text.len() && !self.is_full() {
            let part = Part { needle: needle.clone(), text: Arc::clone(&text), at, number };
            let is_short = (text.len() - at) * (needle.length + 1) <= SHORT;
            let found = if is_short { part.found() } else { turns::take(move || part.found()).await? };
            (at, number) = (found.at, found.number);
            let lines = found.lines.into_iter().map(|(number, line)| format!("{path}:{number}: {line}"));
            self.lines.extend(lines.take(self.most - self.lines.len()));
        }
        Ok(())
    }

    fn told(&self, root: &str) -> String {
        if self.lines.is_empty() {
            return format!("No matches found under {root}");
        }
        let hint = self.is_full().then_some("Narrow the path or add a glob filter.");
        walk::told("matches", root, &self.lines, hint)
    }
}

/// A part of a file.
struct Part {
    needle: Needle,
    text: Arc<str>,
    at: usize,
    number: u64,
}

/// What a turn has found.
struct Matches {
    /// The matching lines, and their numbers.
    lines: Vec<(u64, String)>,
    /// Where the next turn begins, and how many lines come before it.
    at: usize,
    number: u64,
}

impl Part {
    /// Searches for one turn.
    fn found(self) -> Matches {
        let Part { needle, text, mut at, mut number } = self;
        let (mut lines, mut work) = (Vec::new(), 0);
        for line in text[at..].split_inclusive('\n') {
            if work >= TURN {
                break;
            }
            at += line.len();
            number += 1;
            work += (line.len() + 1) * (needle.length + 1);
            if line.len() > MAX_LINE && line.chars().count() > MAX_LINE {
                continue;
            }
            let line = line.trim_end_matches(['\n', '\r']);
            if needle.regex.is_match(line) {
                lines.push((number, shortened(line)));
            }
        }
        Matches { lines, at, number }
    }
}

/// Returns the beginning of a long line.
fn shortened(line: &str) -> String {
    if line.chars().count() <= SHOWN {
        return line.to_owned();
    }
    line.chars().take(SHOWN - 3).collect::<String>() + "..."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(pattern: &str) -> Input {
        serde_json::from_value(serde_json::json!({ "description": "d", "pattern": pattern, "path": "/" }))
            .unwrap()
    }

    fn found(input: &Input, text: &str) -> Vec<String> {
        let mut lines = Lines { lines: Vec::new(), most: 10 };
        let needle = Needle::read(input).unwrap();
        pollster::block_on(lines.search(&needle, "p", text.as_bytes().to_vec())).unwrap();
        lines.lines
    }

    #[test]
    fn lines_that_match() {
        let text = "one\r\nTwo tw.\n\nthree\n";
        assert_eq!(found(&input("TW"), text), ["p:2: Two tw."]);
        assert_eq!(found(&Input { case_sensitive: true, ..input("TW") }, text), [""; 0]);
        assert_eq!(found(&input("e$"), text), ["p:1: one", "p:4: three"]);
        assert_eq!(found(&Input { literal: true, ..input("w.") }, text), ["p:2: Two tw."]);
        assert_eq!(found(&Input { literal: true, ..input("o.*") }, text), [""; 0]);
        assert_eq!(found(&input("^$"), text), ["p:3: "]);
        assert_eq!(found(&input("e"), "a\0e"), [""; 0], "it is binary");
        let long = "e".repeat(300);
        assert_eq!(found(&input("e"), &long), [format!("p:1: {}...", "e".repeat(197))]);
        assert_eq!(found(&input("e"), &"e".repeat(2001)), [""; 0]);
        assert_eq!(found(&input("e"), &"e\n".repeat(100)).len(), 10);
        // Longer than one turn.
        let long = format!("{}x{}\n", "a\n".repeat(400_000), "b".repeat(100));
        assert_eq!(found(&input("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa|x"), &long).len(), 1);
    }

    #[test]
    fn patterns_that_are_wrong() {
        for pattern in ["(", "a{2000}{2000}", "(?=a)", &"a".repeat(1025)] {
            let error = Needle::read(&input(pattern)).unwrap_err();
            assert!(error.starts_with("Invalid regex pattern: "), "{pattern}: {error}");
        }
        assert!(Needle::read(&Input { literal: true, ..input("(") }).is_ok());
    }
}
