//! `koze exec` and `koze shell`.

mod terminal;

use std::process::{Command, Stdio};

use insta::assert_snapshot;
use koze_tests::{Sandboxes, eventually, signal, sleeps};
use rustix::process::Signal;
use serde_json::json;

use crate::common::{printed, sandboxes};

/// Creates the sandbox `default`.
fn with_sandbox() -> Sandboxes {
    let host = sandboxes();
    host.call("sandbox_create", &json!({ "sandbox": "default" }), &[]);
    host
}

/// Runs a shell command in the sandbox `default`. Returns the exit code and both outputs.
fn exec(host: &Sandboxes, command: &str) -> String {
    printed(&host.koze(&["exec", "default", "--", "sh", "-c", command]))
}

/// Returns a number of seconds that no other test sleeps.
fn unique_seconds(number: u32) -> String {
    format!("{number}.{}", std::process::id())
}

#[test]
fn outputs_are_apart_and_the_exit_code_is_the_programs() {
    let host = with_sandbox();
    let run = host.koze(&["exec", "default", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (7, "out\n", "err\n"));
    assert_snapshot!(exec(&host, "kill -TERM $$"), @"143");
    assert_snapshot!(exec(&host, "kill -KILL $$"), @"137");
    assert_snapshot!(printed(&host.koze(&["exec", "default", "--", "no-such-program"])), @"
    127
    error[not_found]: the program no-such-program does not exist
    ");
    assert_snapshot!(printed(&host.koze(&["exec", "default", "--", "/etc"])), @"
    126
    error[permission_denied]: /etc cannot be run
    ");
    assert_eq!(host.koze(&["exec", "default"]).code, 2);
    assert_eq!(host.koze(&["exec", "--timeout", "soon", "default", "--", "true"]).code, 2);
    assert_eq!(host.koze(&["exec", "-i", "--detach", "default", "--", "true"]).code, 2);
}

#[test]
fn output_is_complete_also_in_a_file_that_is_appended_to() {
    let host = with_sandbox();
    // More than all pipes hold, and a reader that begins late.
    let script = r#"echo first > all; "$0" exec default -- sh -c 'yes | head -c 5000000; echo end >&2' >> all 2>&1
                    "$0" exec default -- sh -c 'yes | head -c 5000000' | (sleep 1; wc -c); wc -c < all; grep -c end all"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(host.command(&[]).get_program()).current_dir(host.dir()).envs(host.env());
    assert_snapshot!(printed(&host.run(shell)), @"
    0
    5000000
    5000010
    1
    ");
}

#[test]
fn input_is_passed_if_it_is_asked_for() {
    let host = with_sandbox();
    let run = host.piped(r"a\000b\n", &["exec", "-i", "default", "--", "od", "-c"]);
    assert_snapshot!(printed(&run), @r"
    0
    0000000   a  \0   b  \n
    0000004
    ");
    let run = host.piped("unread", &["exec", "default", "--", "cat"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    // A program need not read its input.
    let run = host.piped("unread", &["exec", "-i", "default", "--", "true"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

#[test]
fn the_environment_and_the_directory_are_those_of_the_tool_shell() {
    let host = with_sandbox();
    let command = "env -u _ -u SHLVL -u OLDPWD | sort";
    let by_tool = host.shell(command);
    assert!(by_tool.contains("HOME=/home/user") && by_tool.contains("PATH=/home/user/"), "{by_tool}");
    assert_eq!(exec(&host, command), format!("0\n{by_tool}"));
    let args = ["exec", "--env", "A=b=c", "-e", "HOME=/tmp", "-w", "sub", "default", "--", "sh", "-c"];
    host.shell("mkdir sub");
    let run = host.koze(&[&args[..], &["echo $A $HOME; pwd"]].concat());
    assert_eq!((run.code, run.stdout.as_str()), (0, "b=c /tmp\n/home/user/sub\n"));
}

#[test]
fn a_sandbox_that_does_not_exist_is_not_created() {
    let host = sandboxes();
    assert_snapshot!(printed(&host.koze(&["exec", "a", "--", "true"])), @"
    125
    error[not_found]: there is no sandbox `a` in this session: it has none, and `koze call` creates one on first use
    ");
    assert!(host.state().is_none() && host.supervisors().is_empty());
    for name in ["b", "c"] {
        host.call("sandbox_create", &json!({ "sandbox": name }), &[]);
    }
    assert_snapshot!(printed(&host.koze(&["exec", "a", "--", "true"])), @"
    125
    error[not_found]: there is no sandbox `a` in this session: it has `b`, `c`
    ");
}

#[test]
fn a_program_whose_time_is_up_is_killed_with_its_children() {
    let host = with_sandbox();
    let seconds = unique_seconds(7101);
    let command = format!("sleep {seconds} & echo started; wait");
    let run = host.koze(&["exec", "--timeout", "1s", "default", "--", "sh", "-c", &command]);
    assert_eq!((run.code, run.stdout.as_str()), (124, "started\n"), "{}", run.stderr);
    eventually("its child is gone", || !sleeps(&seconds));
}

#[test]
fn a_program_ends_with_its_client() {
    let host = with_sandbox();
    let seconds = unique_seconds(7102);
    let mut command = host.command(&["exec", "default", "--", "sleep", &seconds]);
    let mut client = command.stdin(Stdio::null()).spawn().expect("koze");
    eventually("the program runs", || sleeps(&seconds));
    client.kill().expect("the client runs");
    client.wait().expect("a child");
    eventually("the program is gone", || !sleeps(&seconds));
}

#[test]
fn the_first_interrupt_goes_to_the_program() {
    let host = with_sandbox();
    let seconds = unique_seconds(7103);
    let script = format!("trap 'echo caught; exit 9' INT; sleep {seconds} & wait");
    let mut command = host.command(&["exec", "default", "--", "sh", "-c", &script]);
    let client = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("koze");
    eventually("the program runs", || sleeps(&seconds));
    signal(i32::try_from(client.id()).expect("a process ID"), Signal::INT);
    let output = client.wait_with_output().expect("a child");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(9), &b"caught\n"[..]));
}

#[test]
fn a_program_learns_that_nobody_reads_its_output() {
    let host = with_sandbox();
    let script = r#""$0" exec default -- sh -c 'yes; echo ended > f' | head -n 1"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(host.command(&[]).get_program()).current_dir(host.dir()).envs(host.env());
    assert_snapshot!(printed(&host.run(shell)), @"
    0
    y
    ");
    // `yes` was ended by the signal of the closed pipe, and the shell goes on.
    assert_snapshot!(exec(&host, "cat f"), @"
    0
    ended
    ");
}

#[test]
fn programs_in_the_background_go_on() {
    let host = with_sandbox();
    let command =
        "(until [ -e go ]; do sleep 0.05; done; echo more; echo more; echo survived > f) & echo first";
    assert_eq!(exec(&host, command), "0\nfirst\n");
    exec(&host, "touch go");
    eventually("it has written", || exec(&host, "cat f 2>/dev/null").contains("survived"));
}

#[test]
fn a_detached_program_outlives_the_command() {
    let host = with_sandbox();
    let seconds = unique_seconds(7104);
    let script = format!("echo out; echo err >&2; sleep {seconds}");
    let run = host.koze(&["exec", "--detach", "default", "--", "sh", "-c", &script]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let id = run.stdout.trim_end();
    assert_eq!(id.len(), 32, "{id}");
    eventually("it runs", || sleeps(&seconds));
    let run = host.koze(&["logs", "default", id]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "out\n", "err\n"));
    let run = host.koze(&["exec", "--detach", "default", "--", "no-such-program"]);
    assert_eq!((run.code, run.stdout.as_str()), (127, ""));
}
