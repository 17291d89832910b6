//! `koze call`.

use std::fmt::Write as _;

use insta::assert_snapshot;
use koze_tests::{Project, Run, STARTED, Sandboxes};
use serde_json::json;

use crate::common::{printed, refused_with, sandboxes, shell};

/// Runs `koze call shell -` with standard input from `printf`, which may produce any bytes.
fn piped(host: &Sandboxes, text: &str) -> Run {
    host.piped(text, &["call", "shell", "-"])
}

#[test]
fn the_result_is_printed() {
    let host = sandboxes();
    let run = host.koze(&["call", "shell", r#"{"command": "pwd; echo ä >&2"}"#]);
    assert_snapshot!(printed(&run), @r#"
    0
    {"stdout":"/home/user\n","stderr":"ä\n","exit_code":0}
    "#);
    let run = host.koze(&["call", "shell", r#"{"command": "kill -9 $$"}"#]);
    assert_snapshot!(printed(&run), @r#"
    1
    {"stdout":"","stderr":"","exit_code":137}
    "#);
    // The input may be omitted if the tool needs none.
    let run = host.koze(&["call", "sandbox_list"]);
    assert_snapshot!(printed(&run), @r#"
    0
    {"sandboxes":[{"name":"default","image":"shell","status":"running"}]}
    "#);
}

#[test]
fn the_input_may_come_from_standard_input() {
    let host = sandboxes();
    assert_snapshot!(printed(&piped(&host, r#"{"command": "echo piped"}"#)), @r#"
    0
    {"stdout":"piped\n","stderr":"","exit_code":0}
    "#);
    assert_snapshot!(printed(&piped(&host, "")), @r#"
    2
    error: the input is not valid JSON: EOF while parsing a value at line 1 column 0. Example: '{"command": "ls"}'
    "#);
    assert_snapshot!(printed(&piped(&host, r"\377")), @"
    2
    error: standard input cannot be read: stream did not contain valid UTF-8
    ");
}

#[test]
fn invalid_calls_are_rejected() {
    let host = sandboxes();
    let mut all = String::new();
    for args in [
        ["shell", "{"],
        ["shell", "{} {}"],
        ["shell", "[\"ls\"]"],
        ["shell", "null"],
        ["shell", r#"["default", "ls", 1000, "/"]"#],
        ["shell", "{}"],
        ["shell", r#"{"command": "ls", "cwd": "/"}"#],
        ["bash", "{}"],
        ["toString", "{}"],
    ] {
        let run = host.koze(&[&["call"], &args[..]].concat());
        let _ = write!(all, "{args:?}: {}", printed(&run));
    }
    assert_snapshot!(all, @r#"
    ["shell", "{"]: 2
    error: the input is not valid JSON: EOF while parsing an object at line 1 column 1. Example: '{"command": "ls"}'
    ["shell", "{} {}"]: 2
    error: the input is not valid JSON: trailing characters at line 1 column 4. Example: '{"command": "ls"}'
    ["shell", "[\"ls\"]"]: 1
    invalid_input: the input of a tool must be a JSON object
    ["shell", "null"]: 1
    invalid_input: the input of a tool must be a JSON object
    ["shell", "[\"default\", \"ls\", 1000, \"/\"]"]: 1
    invalid_input: the input of a tool must be a JSON object
    ["shell", "{}"]: 1
    invalid_input: `command` is missing: give the command line, or `argv`
    ["shell", "{\"command\": \"ls\", \"cwd\": \"/\"}"]: 1
    invalid_input: unknown field `cwd`, expected one of `sandbox`, `command`, `argv`, `background`, `timeout_ms`, `working_dir`, `env`, `stdin`, `max_output_chars`
    ["bash", "{}"]: 1
    unknown_tool: unknown tool `bash`: the tools are shell, process_list, process_output, process_input, process_kill, read_file, write_file, glob, browse, sandbox_create, sandbox_list, transfer
    ["toString", "{}"]: 1
    unknown_tool: unknown tool `toString`: the tools are shell, process_list, process_output, process_input, process_kill, read_file, write_file, glob, browse, sandbox_create, sandbox_list, transfer
    "#);
}

#[test]
fn an_invalid_project_has_no_tools() {
    let stderr =
        refused_with(&shell("#[sandbox(max_instances = 0)]\npub struct S;"), &["call", "shell", "{}"]);
    assert!(stderr.starts_with("error[K013]"), "{stderr}");
    let stderr = refused_with(&Project::new(), &["call", "shell", "{}"]);
    assert_snapshot!(stderr, @"
    error[K027]: `.` is not a Cargo package: neither it nor a directory above it has a `Cargo.toml`
     |
     = help: run koze in a package, pass one with `--project DIR`, or create one with `koze new DIR`

    1 error; nothing was written
    ");
}

#[test]
fn sessions_share_nothing() {
    let host = sandboxes();
    host.shell(&format!("echo secret > note; sleep 600 & echo $! > pid; {STARTED}"));
    let other = ["--session", "other"];
    let run = host.koze(&[&["call", "read_file", r#"{"path": "note"}"#], &other[..]].concat());
    assert_snapshot!(printed(&run), @"
    1
    not_found: /home/user/note does not exist
    ");
    let sleeping = "ls; cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^slee[p]'; true";
    let seen = host.call("shell", &json!({ "command": sleeping }), &other);
    assert_eq!(seen["stdout"], "0\n");
    assert_eq!(host.shell(sleeping), "note\npid\n1\n");
    let list = host.call("sandbox_list", &json!({}), &other);
    assert_eq!(list["sandboxes"].as_array().map(Vec::len), Some(1));
    assert_eq!(host.shell("cat note; kill -0 $(cat pid) && echo alive"), "secret\nalive\n");
}

#[test]
fn any_valid_name_is_a_separate_session() {
    let host = sandboxes();
    let long = "é".repeat(128);
    let names = ["a/b", "a", "b", "..", "-x", "--all", " ", "a b", "日本", "a:b", "*", "$HOME", &long];
    for (number, name) in names.iter().enumerate() {
        let args = [format!("--session={name}")];
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let seen = host.call(
            "shell",
            &json!({ "command": format!("cat mark; echo {number} > mark") , "sandbox": "s" }),
            &args,
        );
        assert_eq!(seen["stdout"], "", "{name:?}");
    }
    for (number, name) in names.iter().enumerate() {
        let args = [format!("--session={name}")];
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let seen = host.call("read_file", &json!({ "path": "mark", "sandbox": "s" }), &args);
        assert_eq!(seen["content"], format!("{number}\n"), "{name:?}");
    }
}

#[test]
fn invalid_session_names_are_rejected() {
    let host = sandboxes();
    let long = "x".repeat(257);
    for name in ["", "a\nb", "\u{1b}[31m", &long] {
        let run = host.koze(&["call", "sandbox_list", "--session", name]);
        assert_eq!(run.code, 2, "{name:?}: {run:?}");
        assert_eq!(
            run.stderr,
            "error: --session: a session ID must have 1 to 256 bytes and no control characters\n"
        );
    }
    assert!(host.state().is_none());
}

#[test]
fn the_state_may_be_elsewhere() {
    let host = sandboxes();
    // Longer than the maximum length of a socket path.
    let state = format!("{}/{}/ä b", "x".repeat(120), "y".repeat(120));
    host.call("write_file", &json!({ "path": "a", "content": "b" }), &["--state", &state]);
    let inside =
        host.call("read_file", &json!({ "path": "a" }), &["--state", host.path(&state).to_str().unwrap()]);
    assert_eq!(inside["content"], "b");
    assert!(host.state().is_none());
    assert_eq!(host.supervisors().len(), 1);
}

#[test]
fn unusable_state_directories_are_reported() {
    let host = sandboxes();
    host.write("state", "a file");
    let call = ["call", "shell", r#"{"command": "true"}"#];
    let run = host.koze(&call);
    assert_snapshot!(run.stdout, @"unavailable: the state directory cannot be created: Not a directory (os error 20). Choose another one with --state");
    // A person is told which one. The result does not say so, because a model reads it.
    assert!(run.stderr.contains("= note: the state directory is [PROJECT]/state/koze/"), "{}", run.stderr);
    let run = host.koze(&[&call[..], &["--state", "/proc/none"]].concat());
    assert_snapshot!(run.stdout, @"unavailable: the state directory cannot be created: No such file or directory (os error 2). Choose another one with --state");
    assert_eq!((run.code, run.stderr.as_str()), (1, "  = note: the state directory is /proc/none\n"));
    assert_eq!(host.koze(&[&call[..], &["--state", ""]].concat()).code, 2);
}
