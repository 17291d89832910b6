//! What the tools `shell` and `run` share: what a command runs with, and what a model gets of its output.

use std::collections::BTreeMap;

use koze_protocol::output::Kept;
use serde::Serialize;

use super::input;
use crate::error::{Code, Error, Result};
use crate::path::anywhere;
use crate::sandbox::{Output, Sandbox, Write};
use crate::shell::{self, Line};

/// The maximum length of a stream in a result by default, in characters.
pub(super) const MAX_CHARS: u64 = 30_000;
/// The maximum lengths that a caller may set.
pub(super) const CHARS: std::ops::RangeInclusive<u64> = 1_000..=1_048_576;
/// The directory for what does not fit.
const OUTPUT_DIR: &str = "/tmp/koze-output";
/// The maximum number of variables.
const MAX_VARIABLES: usize = 256;

pub(super) fn default_chars() -> u64 {
    MAX_CHARS
}

/// Returns what to run: a command line or the arguments of a program.
///
/// # Errors
/// [`Code::InvalidInput`] unless exactly one of them is given, or if it cannot be run; [`Code::TooLarge`] if it is too long.
pub(super) fn choose_line<'a>(command: Option<&'a str>, argv: Option<&'a [String]>) -> Result<Line<'a>> {
    match (command, argv) {
        (Some(command), None) => {
            shell::check_command(command)?;
            Ok(Line::Shell { prelude: None, command })
        }
        (None, Some(argv)) => {
            shell::check_argv(argv)?;
            Ok(Line::Program(argv))
        }
        (None, None) => {
            Err(Error::new(Code::InvalidInput, "`command` is missing: give the command line, or `argv`"))
        }
        (Some(_), Some(_)) => {
            let message =
                "`command` and `argv` exclude each other: `command` is for a shell, `argv` is one program";
            Err(Error::new(Code::InvalidInput, message))
        }
    }
}

/// Returns variables as pairs.
///
/// # Errors
/// [`Code::InvalidInput`] if a name or value cannot be one.
pub(super) fn check_env(env: BTreeMap<String, String>) -> Result<Vec<(String, String)>> {
    if env.len() > MAX_VARIABLES {
        let message = format!("`env` has {} variables: it can have at most {MAX_VARIABLES}", env.len());
        return Err(Error::new(Code::InvalidInput, message));
    }
    for (name, value) in &env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let message = format!(
                "`{}` in `env` is not valid: a name has no `=` and is not empty, and neither name nor value has a NUL character",
                name.escape_debug()
            );
            return Err(Error::new(Code::InvalidInput, message));
        }
    }
    Ok(env.into_iter().collect())
}

/// The result of a command. Output that is not UTF-8 is encoded as base64, and its `…_encoding` says so.
#[derive(Debug, Serialize)]
pub(super) struct CommandResult {
    stdout: String,
    stderr: String,
    exit_code: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    timed_out: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_file: Option<String>,
    /// What a model has to know about programs of earlier calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

/// Returns the result for a model. A stream of more than `max_chars` characters loses its middle, and is written to a file of the
/// sandbox as far as [`shell::MAX_OUTPUT`] kept it. Programs that ended with the sandbox are named once.
pub(super) async fn show_output<S: Sandbox>(
    sandbox: &S,
    output: Output,
    duration_ms: Option<u64>,
    max_chars: u64,
) -> CommandResult {
    let stdout = show_stream(sandbox, output.stdout, "stdout", max_chars).await;
    let stderr = show_stream(sandbox, output.stderr, "stderr", max_chars).await;
    let notice = sandbox.take_ended_programs().await.map(|ended| ended.notice());
    CommandResult {
        stdout: stdout.text,
        stderr: stderr.text,
        exit_code: output.exit_code,
        duration_ms,
        timed_out: output.timed_out,
        stdout_encoding: stdout.encoding,
        stderr_encoding: stderr.encoding,
        stdout_file: stdout.file,
        stderr_file: stderr.file,
        notice,
    }
}

struct Shown {
    text: String,
    encoding: Option<&'static str>,
    file: Option<String>,
}

async fn show_stream<S: Sandbox>(sandbox: &S, bytes: Vec<u8>, name: &str, max_chars: u64) -> Shown {
    let max = usize::try_from(max_chars).unwrap_or(usize::MAX);
    // Base64 has four characters for three bytes.
    let is_text = std::str::from_utf8(&bytes).is_ok();
    let fits = if is_text { fits_in(&bytes, max) } else { bytes.len().div_ceil(3) * 4 <= max };
    if fits {
        let (text, is_binary) = input::encode_bytes(bytes);
        return Shown { text, encoding: is_binary.then_some("base64"), file: None };
    }
    let file = keep_output(sandbox, &bytes, name).await;
    match String::from_utf8(bytes) {
        Ok(text) => Shown { text: cut_middle(&text, max, file.as_deref()), encoding: None, file },
        Err(error) => {
            let mut kept = Kept::new(max / 4 * 3);
            kept.push(error.as_bytes());
            let (text, _) = input::encode_bytes(kept.finish());
            Shown { text, encoding: Some("base64"), file }
        }
    }
}

/// Returns whether a text has at most so many characters.
fn fits_in(text: &[u8], max: usize) -> bool {
    text.len() <= max || text.iter().filter(|byte| (**byte & 0xc0) != 0x80).count() <= max
}

/// Writes output to a new file of the sandbox. Returns nothing if that fails, for example because its disk is full: the command
/// itself has not failed.
async fn keep_output<S: Sandbox>(sandbox: &S, bytes: &[u8], name: &str) -> Option<String> {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let path = format!("{OUTPUT_DIR}/{}-{name}", &id[..12]);
    sandbox.write(anywhere(&path), bytes.to_vec(), Write::Replace).await.ok()?;
    Some(path)
}

/// Returns the start and the end of a text of more than `max` characters, with a mark in place of its middle.
fn cut_middle(text: &str, max: usize, file: Option<&str>) -> String {
    let total = text.chars().count();
    let mark = |omitted: usize| {
        let place = file.map_or_else(String::new, |file| format!("; the output is in {file}"));
        format!("\n[... {omitted} characters left out{place} ...]\n")
    };
    // The mark of the whole text is the longest.
    let room = max.saturating_sub(mark(total).chars().count());
    let (first, last) = (room.div_ceil(2), room / 2);
    let index = |count: usize| text.char_indices().nth(count).map_or(text.len(), |(index, _)| index);
    let (head, tail) = (&text[..index(first)], &text[index(total - last)..]);
    format!("{head}{}{tail}", mark(total - first - last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_cut() {
        let text: String = ('a'..='z').cycle().take(5000).chain(['ä']).collect();
        let cut = cut_middle(&text, 1000, Some("/tmp/koze-output/x-stdout"));
        assert!(cut.chars().count() <= 1000, "{cut}");
        assert!(cut.starts_with("abc") && cut.ends_with('ä'));
        let omitted: usize = cut.split("[... ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let mark = format!(
            "\n[... {omitted} characters left out; the output is in /tmp/koze-output/x-stdout ...]\n"
        );
        assert!(cut.contains(&mark), "{cut}");
        assert_eq!(omitted + cut.chars().count() - mark.chars().count(), 5001);
        assert!(cut_middle(&text, 1000, None).contains("characters left out ...]"));
    }

    #[test]
    fn characters_are_counted() {
        for (text, max, fits) in [("", 0, true), ("äö", 2, true), ("äö", 1, false), ("abc", 3, true)] {
            assert_eq!(fits_in(text.as_bytes(), max), fits, "{text} {max}");
        }
    }

    #[test]
    fn a_command_is_a_line_or_a_program() {
        let argv = vec!["ls".to_owned()];
        assert!(matches!(choose_line(Some("ls"), None), Ok(Line::Shell { command: "ls", .. })));
        assert!(matches!(choose_line(None, Some(&argv)), Ok(Line::Program(_))));
        for (command, argv) in
            [(None, None), (Some("ls"), Some(&argv[..])), (None, Some(&[][..])), (Some("a\0"), None)]
        {
            assert_eq!(
                choose_line(command, argv).unwrap_err().code,
                Code::InvalidInput,
                "{command:?} {argv:?}"
            );
        }
    }

    #[test]
    fn variables_are_checked() {
        let env = |name: &str, value: &str| check_env(BTreeMap::from([(name.to_owned(), value.to_owned())]));
        assert_eq!(env("A", "b=c").unwrap(), [("A".to_owned(), "b=c".to_owned())]);
        for (name, value) in [("", "a"), ("A=B", "a"), ("A\0", "a"), ("A", "\0")] {
            assert_eq!(env(name, value).unwrap_err().code, Code::InvalidInput, "{name:?} {value:?}");
        }
    }
}
