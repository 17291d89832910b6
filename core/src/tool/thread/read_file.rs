//! `read_file`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::place::Given;
use super::{Told, cut, open_sandbox, to_reply};
use crate::error::{Code, Error, Result};
use crate::provider::Provider;
use crate::sandbox::{LineRange, Sandbox};
use crate::session::Session;
use crate::tool::{Reply, Scope, Tool};
use koze_protocol::lines::MAX_CHARS;

/// Reads a file.
#[derive(Debug)]
pub struct ReadFile;

/// The input of `read_file`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Explain why you are reading this file in short words. ALWAYS PROVIDE THIS PARAMETER FIRST.
    #[serde(rename = "description")]
    _description: String,
    /// The absolute path to the file to read.
    path: String,
    /// Optional starting line number (1-indexed, inclusive). Use with `end_line` to read a specific range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "i64", range(min = 1)))]
    start_line: Option<i64>,
    /// Optional ending line number (1-indexed, inclusive). Use with `start_line` to read a specific range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "i64", range(min = 1)))]
    end_line: Option<i64>,
    /// Optional character of the file or range to start at (1-indexed), for a line that is too long to be read at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "i64", range(min = 1)))]
    start_char: Option<i64>,
}

/// The longest result, in characters.
const MAX_RESULT: usize = 50_000;

impl Tool for ReadFile {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = "Read the contents of a text file. Use this to examine source code, configuration files, logs, or any \
        text-based file. Returns at most 50000 characters.";
    const SCOPE: Scope = Scope::Session;
    type Input = Input;

    fn wrong_input(error: Error) -> Result<Reply> {
        Ok(super::wrong_input(error))
    }

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        Ok(to_reply(read_lines(session, &input).await))
    }
}

async fn read_lines<P: Provider>(session: &Session<P>, input: &Input) -> Told {
    let given = Given::new(&input.path)?;
    let skipped = match chars_to_skip(input.start_char) {
        Ok(skipped) => skipped,
        Err(notice) => return Ok(notice),
    };
    let range = match line_range(input.start_line, input.end_line) {
        Ok(range) => LineRange { max_chars: (skipped + MAX_RESULT) as u64, ..range },
        Err(notice) => return Ok(notice.to_owned()),
    };
    let read = open_sandbox(session).await?.read_lines(given.to_place(), range).await;
    let lines = read.map_err(|error| {
        let path = &input.path;
        let named = match error.code {
            Code::NotFound => Some(format!("File not found: {path}")),
            Code::PermissionDenied => Some(format!("Permission denied reading file: {path}")),
            Code::IsDirectory => Some(format!("Path is a directory, not a file: {path}")),
            _ => None,
        };
        given.failure_text(&error, "Unexpected error reading file", named)
    })?;
    if lines.binary {
        return Err(format!(
            "cannot read '{}' as text \u{2014} it appears to be a binary file (for example .xlsx, .pdf or an image). \
             read_file only supports UTF-8 text. Use bash with a program or a Python library for this kind of file instead.",
            input.path
        ));
    }
    if lines.text.is_empty() {
        let is_past_end = lines.past_end && range.first > 1;
        return Ok(if is_past_end { "(start_line exceeds file length)" } else { "(empty)" }.to_owned());
    }
    let total = usize::try_from(lines.chars).unwrap_or(usize::MAX);
    if skipped >= total {
        return Ok("(start_char exceeds the length of the text)".to_owned());
    }
    let start = lines.text.char_indices().nth(skipped).map_or(lines.text.len(), |(at, _)| at);
    let text = &lines.text[start..];
    // More lines are read by their numbers, and the rest of a line by its characters.
    let hint = if text.contains('\n') { "start_line/end_line" } else { "start_char" };
    Ok(cut::keep_head(text, total - skipped, MAX_RESULT, &format!("Use {hint} to read a specific range")))
}

/// Returns how many characters to leave out, or a notice of what is invalid.
fn chars_to_skip(start_char: Option<i64>) -> std::result::Result<usize, String> {
    let most = usize::try_from(MAX_CHARS).unwrap_or(usize::MAX) - MAX_RESULT;
    match usize::try_from(start_char.unwrap_or(1)) {
        Ok(start) if (1..=most).contains(&start) => Ok(start - 1),
        Ok(start) if start > most => {
            Err(format!("(start_char must be <= {most}: use bash to read what follows)"))
        }
        _ => Err("(start_char must be >= 1)".to_owned()),
    }
}

/// Returns the range to read, or a notice of what is invalid.
fn line_range(start: Option<i64>, end: Option<i64>) -> std::result::Result<LineRange, &'static str> {
    let line = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
    let first = line(start.unwrap_or(1)).ok_or("(start_line must be >= 1)")?;
    let last = end.map(|end| line(end).ok_or("(end_line must be >= 1)")).transpose()?;
    if last.is_some_and(|last| last < first) {
        return Err("(start_line > end_line \u{2014} no lines in range)");
    }
    let verbatim = start.is_none() && end.is_none();
    Ok(LineRange { first, last, max_chars: MAX_RESULT as u64, verbatim })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_within_a_line() {
        assert_eq!(chars_to_skip(None), Ok(0));
        assert_eq!(chars_to_skip(Some(50_001)), Ok(50_000));
        assert!(chars_to_skip(Some(0)).unwrap_err().contains(">= 1"));
        assert!(chars_to_skip(Some(i64::MAX)).unwrap_err().contains("use bash"));
    }

    #[test]
    fn ranges() {
        let lines =
            |start, end| line_range(start, end).map(|range| (range.first, range.last, range.verbatim));
        assert_eq!(lines(None, None), Ok((1, None, true)));
        assert_eq!(lines(Some(2), None), Ok((2, None, false)));
        assert_eq!(lines(None, Some(3)), Ok((1, Some(3), false)));
        assert_eq!(lines(Some(3), Some(3)), Ok((3, Some(3), false)));
        assert_eq!(lines(Some(0), Some(-1)), Err("(start_line must be >= 1)"));
        assert_eq!(lines(Some(5), Some(0)), Err("(end_line must be >= 1)"));
        assert_eq!(lines(Some(5), Some(4)), Err("(start_line > end_line — no lines in range)"));
    }
}
