//! A fixed sequence of calls of the tools `workspace`, whose answers are the same bytes on every host that runs programs.

use fs_err as fs;
use serde_json::{Value, json};

use super::{Host, ToolResult};
use crate::root;

/// Where the answers are committed.
const COMMITTED: &str = "tests/tests/conformance/workspace-answers.txt";

/// Calls the tools in a session, and compares the answers with the committed ones. `KOZE_BLESS` writes them.
///
/// # Panics
///
/// Panics if they differ.
pub fn check_workspace_answers(host: &dyn Host, session: &str) {
    let answers = answers(host, session);
    let path = root().join(COMMITTED);
    if std::env::var_os("KOZE_BLESS").is_some() {
        fs::write(&path, &answers).expect("the committed answers");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    for (index, (answer, expected)) in answers.lines().zip(committed.lines()).enumerate() {
        assert_eq!(answer, expected, "line {} of {COMMITTED}", index + 1);
    }
    assert_eq!(answers.len(), committed.len(), "{COMMITTED} has another number of answers");
}

fn answers(host: &dyn Host, session: &str) -> String {
    let mut all = String::new();
    for (tool, input) in calls() {
        let ToolResult { content, is_error } =
            host.call(session, &format!("workspace__{tool}"), input.clone());
        let failed = if is_error { "failed" } else { "ok" };
        all.extend([tool, " ", &input.to_string(), "\n", failed, " ", &without_time(content), "\n"]);
    }
    all
}

/// Removes the time that a command took.
fn without_time(content: String) -> String {
    let key = "\"duration_ms\":";
    let Some(at) = content.find(key) else { return content };
    let (before, after) = content.split_at(at + key.len());
    let digits = after.chars().take_while(char::is_ascii_digit).count();
    assert_ne!(digits, 0, "{content}");
    format!("{before}0{}", &after[digits..])
}

fn calls() -> Vec<(&'static str, Value)> {
    let run = |command: &str| json!({ "command": command });
    let code = |language: &str, code: &str| json!({ "language": language, "code": code });
    vec![
        ("open__write_file", json!({ "path": "a/ü.txt", "content": "one\ntwo\u{0}\u{7f}\u{2028}\"\\\n" })),
        ("open__write_file", json!({ "path": "b", "content": "/wD+", "encoding": "base64" })),
        ("open__read_file", json!({ "path": "a/ü.txt" })),
        ("open__read_file", json!({ "path": "b" })),
        ("open__read_file", json!({ "path": "a/ü.txt", "limit": 5, "offset": 1 })),
        ("open__read_file", json!({ "path": "none" })),
        ("open__edit_file", json!({ "path": "a/ü.txt", "old_string": "two", "new_string": "2" })),
        ("open__edit_file", json!({ "path": "a/ü.txt", "old_string": "two", "new_string": "2" })),
        ("open__edit_file", json!({ "path": "a/ü.txt", "old_string": "\n", "new_string": "" })),
        ("open__ls", json!({ "path": "a" })),
        ("open__glob", json!({ "pattern": "**" })),
        ("open__grep", json!({ "pattern": "o" })),
        ("open__grep", json!({ "pattern": "(" })),
        ("open__mkdir", json!({ "path": "x/y" })),
        ("open__mkdir", json!({ "path": "a" })),
        ("open__rm", json!({ "path": "a" })),
        ("open__rm", json!({ "path": "a", "recursive": true })),
        ("open__stat", json!({ "path": "/etc/passwd" })),
        ("open__stat", json!({ "path": "b", "more": 1 })),
        ("open__run", run("printf 'out\\n'; printf '\\377' >&2; exit 7")),
        ("open__run", run("seq 3; kill -TERM $$")),
        ("open__run", json!({ "command": "echo a; sleep 60", "timeout_ms": 300 })),
        ("open__run", run("no-such-program 2>/dev/null")),
        ("open__run", run("a\u{0}b")),
        ("strict__run", run("echo hi | cat")),
        ("strict__run", run("echo $(date)")),
        ("strict__run", run("cd /; f() { :; }")),
        ("strict__run", json!({ "command": "echo", "timeout_ms": 5001 })),
        ("code__run_code", code("python", "print('ä')\n{'a': [1, 2.5, None]}")),
        ("code__run_code", code("python", "raise ValueError('no')")),
        ("code__run_code", code("javascript", "console.log('ä'); ({ a: [1, 2.5, null] })")),
        ("code__run_code", code("ruby", "1")),
        ("python__run_code", code("javascript", "1")),
        ("code__run_in_code_context", json!({ "context_id": "0".repeat(32), "code": "1" })),
        ("code__delete_code_context", json!({ "context_id": "x" })),
    ]
}
