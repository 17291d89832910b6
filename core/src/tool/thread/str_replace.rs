//! `str_replace`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::place::Given;
use super::{Told, open_sandbox, to_reply};
use crate::error::{Code, Error, Result};
use crate::provider::Provider;
use crate::sandbox::{Edit, Edited, LineRange, NearestLine, Sandbox};
use crate::session::Session;
use crate::tool::{Reply, Scope, Tool};
use koze_protocol::lines::MAX_CHARS;

/// Replaces a text in a file.
#[derive(Debug)]
pub struct StrReplace;

/// The input of `str_replace`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Explain why you are replacing the substring in short words. ALWAYS PROVIDE THIS PARAMETER FIRST.
    #[serde(rename = "description")]
    _description: String,
    /// The absolute path to the file to replace the substring in. ALWAYS PROVIDE THIS PARAMETER SECOND.
    path: String,
    /// The substring to replace. ALWAYS PROVIDE THIS PARAMETER THIRD.
    old_str: String,
    /// The new substring. ALWAYS PROVIDE THIS PARAMETER FOURTH.
    new_str: String,
    /// Whether to replace all occurrences of the substring. If False (default), the substring must appear exactly once
    /// in the file.
    #[serde(default)]
    replace_all: bool,
}

impl Tool for StrReplace {
    const NAME: &'static str = "str_replace";
    const DESCRIPTION: &'static str = "Replace a substring in a file with another substring. Returns OK. If replace_all is False (default), the \
        substring must appear exactly once in the file.";
    const SCOPE: Scope = Scope::Session;
    type Input = Input;

    fn wrong_input(error: Error) -> Result<Reply> {
        Ok(super::wrong_input(error))
    }

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        Ok(to_reply(replace_text(session, input).await))
    }
}

async fn replace_text<P: Provider>(session: &Session<P>, input: Input) -> Told {
    let Input { path, old_str, new_str, replace_all, .. } = input;
    let given = Given::new(&path)?;
    let sandbox = open_sandbox(session).await?;
    let breaks_lines = old_str.contains('\n') && !old_str.contains("\r\n");
    let edited = if old_str.is_empty() {
        // Nothing to replace, but the file must be there.
        sandbox.read(given.to_place(), 0, 0).await.map(|_| None)
    } else {
        let edit = Edit { old: old_str.into_bytes(), new: new_str.into_bytes(), all: replace_all };
        sandbox.edit(given.to_place(), &edit).await.map(Some)
    };
    let edited = edited.map_err(|error| {
        let named = match error.code {
            Code::NotFound => Some(format!("File not found: {path}")),
            Code::PermissionDenied => Some(format!("Permission denied accessing file: {path}")),
            Code::IsDirectory => Some(format!("Path is a directory, not a file: {path}")),
            _ => None,
        };
        given.failure_text(&error, "Unexpected error replacing string", named)
    })?;
    match edited {
        None | Some(Edited::Done { .. }) => Ok("OK".to_owned()),
        Some(Edited::NotFound { nearest: None }) => {
            Err(format!("String to replace not found in file: {path}"))
        }
        Some(Edited::NotFound { nearest: Some(nearest) }) => {
            let differs = if breaks_lines && has_crlf(&sandbox, &given, nearest.number).await {
                "Its lines end in CR LF (\\r\\n), those of old_str in LF (\\n), or other white space differs from"
            } else {
                "Only white space differs from"
            };
            let NearestLine { number, text } = nearest;
            Err(format!(
                "String to replace not found in file: {path}. {differs} the text at line {number}: {text}"
            ))
        }
        Some(Edited::Ambiguous { occurrences, lines }) => Err(format!(
            "String to replace appears {occurrences} times in file: {path} ({}). Add context to make it unique, or set \
                         replace_all.",
            format_lines(&lines, occurrences)
        )),
    }
}

/// Returns whether a line ends in CR LF.
async fn has_crlf<S: Sandbox>(sandbox: &S, given: &Given<'_>, line: u64) -> bool {
    let range = LineRange { first: line, last: Some(line), max_chars: MAX_CHARS, verbatim: true };
    let read = sandbox.read_lines(given.to_place(), range).await;
    read.is_ok_and(|lines| lines.text.ends_with("\r\n"))
}

/// Returns the names of lines. Several occurrences can be in one line, and not all of many are named.
fn format_lines(lines: &[u64], occurrences: u64) -> String {
    let mut names: Vec<String> = lines.iter().map(u64::to_string).collect();
    names.dedup();
    let (is_one, is_part) = (names.len() == 1, (lines.len() as u64) < occurrences);
    if is_part {
        names.push("\u{2026}".to_owned());
    }
    format!("{} {}", if is_one && !is_part { "line" } else { "lines" }, names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lines() {
        assert_eq!(format_lines(&[1, 5], 2), "lines 1, 5");
        assert_eq!(format_lines(&[3, 3], 2), "line 3");
        assert_eq!(format_lines(&[1, 2, 2], 9), "lines 1, 2, …");
    }
}
