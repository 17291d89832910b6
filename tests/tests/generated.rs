//! The generated code, compiled for this machine, with providers of sandboxes.
#![cfg(target_os = "linux")]

use std::io::BufRead;
use std::process::Command;
use std::time::Duration;

use koze_tests::{generated_program, run};
use serde_json::{Value, json};

/// The timeout of a run.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Calls tools concurrently, and returns the results in order.
fn call(arguments: &[&str], calls: &[(&str, &str, Value)]) -> Vec<(bool, String)> {
    let input = tempfile::NamedTempFile::new().expect("a temporary file");
    let lines = calls.iter().enumerate().map(|(id, (session, tool, input))| {
        format!("{}\n", json!({ "id": id, "session": session, "tool": tool, "input": input }))
    });
    fs_err::write(input.path(), lines.collect::<String>()).expect("the calls");
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" < \"$0\""]).arg(input.path()).arg(generated_program()).args(arguments);
    let output = run(command, TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut answers: Vec<Value> =
        output.stdout.lines().map(|line| serde_json::from_str(&line.expect("text")).expect("JSON")).collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers.len(), calls.len(), "{answers:?}");
    let taken = |answer: &Value| {
        let failed = answer["isError"].as_bool().expect("whether it failed");
        (failed, answer["content"].as_str().expect("text").to_owned())
    };
    answers.iter().map(taken).collect()
}

#[test]
fn tools_run_in_sandboxes_of_this_machine() {
    let state = tempfile::tempdir().expect("a temporary directory");
    let local = ["local", state.path().to_str().expect("a path in Unicode")];
    let answers = call(
        &local,
        &[
            ("one", "shell", json!({ "command": "echo $((6 * 7)); exit 3" })),
            ("one", "sandbox_create", json!({ "sandbox": "py", "image": "python" })),
            ("one", "sandbox_create", json!({ "sandbox": "x", "image": "perl" })),
            ("one", "sandbox_destroy", json!({})),
            ("two", "write_file", json!({ "path": "kept.txt", "content": "kept" })),
        ],
    );
    let (failed, shell) = &answers[0];
    let shell: Value = serde_json::from_str(shell).expect("JSON");
    assert_eq!((*failed, &shell["stdout"], &shell["exit_code"]), (true, &json!("42\n"), &json!(3)));
    let created: Value = serde_json::from_str(&answers[1].1).expect("JSON");
    assert_eq!((answers[1].0, &created["created"]), (false, &json!(true)), "{created}");
    assert_eq!(
        answers[2],
        (true, "invalid_input: there is no image `perl`: the images are python, shell".to_owned())
    );
    let (failed, unknown) = &answers[3];
    assert!(*failed && unknown.starts_with("unknown_tool: unknown tool `sandbox_destroy`: "), "{unknown}");
    assert_eq!(answers[4], (false, r#"{"ok":true,"size":4}"#.to_owned()));

    // The sandboxes outlive the program, each in its session.
    let answers = call(
        &local,
        &[
            ("two", "read_file", json!({ "path": "kept.txt" })),
            ("one", "read_file", json!({ "path": "kept.txt" })),
            ("one", "sandbox_list", json!({})),
        ],
    );
    assert_eq!(answers[0], (false, r#"{"content":"kept","size":4}"#.to_owned()));
    assert!(answers[1].0 && answers[1].1.starts_with("not_found: "), "{answers:?}");
    let list: Value = serde_json::from_str(&answers[2].1).expect("JSON");
    let images =
        |index: usize| (list["sandboxes"][index]["name"].clone(), list["sandboxes"][index]["image"].clone());
    assert_eq!(
        (images(0), images(1)),
        ((json!("default"), json!("shell")), (json!("py"), json!("python"))),
        "{list}"
    );
}

#[test]
fn tools_work_on_files_in_memory() {
    let answers = call(
        &["memory"],
        &[
            ("one", "write_file", json!({ "path": "a/b", "content": "text" })),
            ("one", "shell", json!({ "command": "true" })),
            ("one", "toString", json!({})),
        ],
    );
    assert_eq!(answers[0], (false, r#"{"ok":true,"size":4}"#.to_owned()));
    assert!(answers[1].0 && answers[1].1.starts_with("unsupported: "), "{answers:?}");
    assert!(answers[2].0 && answers[2].1.starts_with("unknown_tool: "), "{answers:?}");
}
