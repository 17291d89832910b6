//! The command that repeats a call.

use koze_core::journal::CallRecord;
use koze_core::tool::Family;

use crate::args::{self, StateArgs};
use crate::commands::call_lines::escape_hidden;
use crate::output::shell::single_quoted;

/// Returns the command, quoted for a shell, or why the call cannot be repeated.
pub(super) fn command(call: &CallRecord, state: &StateArgs) -> Result<String, &'static str> {
    let Some(input) = &call.input else { return Err("its input was not recorded") };
    if call.input_cut {
        return Err("its input was truncated");
    }
    if call.input_masked {
        return Err("secrets in its input were masked");
    }
    let Some(family) = &call.family else { return Err("there is no such tool") };
    let mut words = vec!["koze".to_owned(), "call".to_owned()];
    if family != Family::Agent.name() {
        words.push(format!("--tools={family}"));
    }
    if call.session != args::SESSION {
        words.push(format!("--session={}", call.session));
    }
    if state.project.as_os_str() != "." {
        words.push(format!("--project={}", state.project.display()));
    }
    if let Some(dir) = &state.state {
        words.push(format!("--state={}", dir.display()));
    }
    // Names and inputs may begin with a hyphen.
    words.extend(["--".to_owned(), call.tool.clone(), escape_hidden(input.text())]);
    if words.iter().any(|word| word.contains(char::is_control)) {
        return Err("an option contains control characters");
    }
    Ok(words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "))
}

/// Quotes a word for a POSIX shell, unless it needs none.
fn quote(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=,:@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    single_quoted(word)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use serde_json::{Value, json};

    use super::*;

    fn call(changes: &Value) -> CallRecord {
        let mut record = json!({
            "time": 1, "session": "default", "family": "agent", "tool": "shell", "input": {}, "input_bytes": 2,
            "outcome": "ok", "duration_ms": 0, "result_bytes": 2,
        });
        for (key, value) in changes.as_object().unwrap() {
            record[key] = value.clone();
        }
        serde_json::from_str(&record.to_string()).unwrap()
    }

    fn here() -> StateArgs {
        StateArgs { project: PathBuf::from("."), state: None }
    }

    #[test]
    fn commands_name_what_is_not_the_default() {
        assert_eq!(command(&call(&json!({})), &here()).unwrap(), "koze call -- shell '{}'");
        let other = call(&json!({ "family": "thread", "tool": "bash", "session": "-a b" }));
        let state = StateArgs { project: PathBuf::from("it's"), state: Some(PathBuf::from("/s")) };
        assert_eq!(
            command(&other, &state).unwrap(),
            r"koze call --tools=thread '--session=-a b' '--project=it'\''s' --state=/s -- bash '{}'"
        );
    }

    #[test]
    fn an_incomplete_input_has_no_command() {
        for (changes, why) in [
            (json!({ "input": null }), "its input was not recorded"),
            (json!({ "input_cut": true }), "its input was truncated"),
            (json!({ "input_masked": true }), "secrets in its input were masked"),
            (json!({ "family": null }), "there is no such tool"),
        ] {
            assert_eq!(command(&call(&changes), &here()), Err(why));
        }
    }

    /// The shell is the judge: it must pass each word on unchanged.
    #[test]
    fn a_shell_reads_what_was_quoted() {
        for text in
            ["$(touch x)", "`id`", "a'b", "''", "\\", "\"", "!x", "a\u{9b}b\u{7f}", "ü\n\t;&|<>*?[]{}~#"]
        {
            let input = json!({ "command": text });
            let command = command(&call(&json!({ "input": input, "tool": "-t" })), &here()).unwrap();
            let script = command.replacen("koze", "printf '%s\\0'", 1);
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            let printed = String::from_utf8(output.stdout).unwrap();
            let words: Vec<&str> = printed.split_terminator('\0').collect();
            assert_eq!(words[..3], ["call", "--", "-t"]);
            assert_eq!(serde_json::from_str::<Value>(words[3]).unwrap(), input, "{command}");
        }
    }
}
