//! Calls as lines, for people and for programs.

use std::fmt::Write as _;

use chrono::{DateTime, SecondsFormat};
use koze_core::journal::CallRecord;

use super::show;
use crate::args;

/// How many characters of an input a line shows.
const SHOWN_INPUT: usize = 100;

/// Prints those of the calls that the arguments select, after a head if they are the first ones. `since` is in milliseconds
/// since 1970. Returns whether the reader is still there.
pub(super) fn print(calls: &[CallRecord], args: &args::Log, since: Option<u64>, is_first: bool) -> bool {
    let shown = calls.iter().filter(|call| {
        since.is_none_or(|since| call.time >= since)
            && args.tool.as_ref().is_none_or(|tool| call.tool == *tool)
            && args.sandbox.as_ref().is_none_or(|name| call.sandboxes.contains(name))
    });
    let mut text: String = shown.map(|call| if args.json { in_json(call) } else { in_words(call) }).collect();
    if is_first && !args.json {
        text = match (text.is_empty(), args.follow) {
            (true, false) => "no calls are recorded\n".to_owned(),
            _ => head() + &text,
        };
    }
    show::told(&text)
}

/// Returns the head of the list for people.
fn head() -> String {
    format_row(["ID", "TIME", "SESSION", "SANDBOX", "TOOL", "OUTCOME", "DURATION", "INPUT"])
}

/// Returns a call as a line for people, after a line that says how many calls before it were lost.
fn in_words(call: &CallRecord) -> String {
    let mut text = String::new();
    if call.lost > 0 {
        let calls =
            if call.lost == 1 { "1 call was".to_owned() } else { format!("{} calls were", call.lost) };
        let _ =
            writeln!(text, "{calls} not recorded: the journal could not be written fast enough, or at all");
    }
    let input = call.input.as_ref().map(|input| escape_hidden(input.text())).unwrap_or_default();
    text + &format_row([
        &call.id.to_string(),
        &time(call.time),
        &call.session,
        &sandboxes(call),
        &call.tool,
        &outcome(call),
        &format!("{} ms", call.duration_ms),
        &truncate(&input),
    ])
}

/// Returns a call as a line of JSON.
fn in_json(call: &CallRecord) -> String {
    let json = serde_json::to_string(call).expect("a record is plain data");
    escape_hidden(&json) + "\n"
}

/// Returns a time in milliseconds since 1970 as text.
pub(super) fn time(milliseconds: u64) -> String {
    let time = i64::try_from(milliseconds).ok().and_then(DateTime::from_timestamp_millis);
    time.map_or_else(String::new, |time| time.to_rfc3339_opts(SecondsFormat::Millis, true))
}

/// Returns the names of the sandboxes that a call used.
pub(super) fn sandboxes(call: &CallRecord) -> String {
    if call.sandboxes.is_empty() { "-".to_owned() } else { call.sandboxes.join(",") }
}

/// Returns how a call ended, with the exit code of its program.
pub(super) fn outcome(call: &CallRecord) -> String {
    match call.exit_code {
        Some(code) => format!("{} ({code})", call.outcome),
        None => call.outcome.to_string(),
    }
}

/// Replaces characters in JSON that a terminal does not show, or that change how it shows others, by their escapes. JSON has them in
/// strings only.
pub(super) fn escape_hidden(json: &str) -> String {
    json.chars().fold(String::with_capacity(json.len()), |mut text, c| {
        if is_hidden(c) {
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
        text
    })
}

/// Replaces such characters in other text.
pub(super) fn visible(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Returns whether a character is a control character or changes the direction of text.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(SHOWN_INPUT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns a line. Its columns have minimum widths, because the next calls are not known yet.
fn format_row(cells: [&str; 8]) -> String {
    let [id, time, session, sandbox, tool, outcome, duration, input] = cells.map(visible);
    let line = format!(
        "{id:>5}  {time:24}  {session:10}  {sandbox:10}  {tool:14}  {outcome:13}  {duration:>9}  {input}"
    );
    line.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(input: &serde_json::Value) -> CallRecord {
        let record = json!({
            "id": 7, "time": 1_700_000_000_123_u64, "session": "s\u{1b}", "tool": "shell", "sandboxes": ["a", "b"],
            "input": input, "input_bytes": 2, "outcome": "failed", "exit_code": 3, "duration_ms": 12,
            "result_bytes": 2, "lost": 4,
        });
        serde_json::from_str(&record.to_string()).unwrap()
    }

    #[test]
    fn a_call_is_a_line() {
        let words = in_words(&call(&json!({ "command": "a\nb\u{9b}\u{202e}" })));
        assert_eq!(
            words,
            "4 calls were not recorded: the journal could not be written fast enough, or at all\n\
             \x20   7  2023-11-14T22:13:20.123Z  s\u{fffd}          a,b         shell           failed (3)         12 ms  \
             {\"command\":\"a\\nb\\u009b\\u202e\"}\n"
        );
        assert_eq!(head().find("SANDBOX"), Some(45));
    }

    #[test]
    fn a_long_input_is_truncated() {
        let words = in_words(&call(&json!({ "command": "x".repeat(300) })));
        assert!(words.ends_with("xxx…\n") && words.lines().nth(1).unwrap().chars().count() < 220, "{words}");
    }

    #[test]
    fn json_is_one_line_without_control_characters() {
        let line = in_json(&call(&json!({ "command": "\u{7f}\u{9b}\n" })));
        assert_eq!(line.matches('\n').count(), 1);
        assert!(!line.trim_end().contains(char::is_control), "{line:?}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["input"]["command"], "\u{7f}\u{9b}\n");
        assert_eq!((&value["id"], &value["lost"]), (&json!(7), &json!(4)));
    }
}
