//! `koze doctor --prove` on the kernel of the tests.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fs_err as fs;
use koze_tests::{eventually, koze, processes, run, signal};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::violations;

const TIMEOUT: Duration = Duration::from_mins(10);
const NOBODY: u32 = 65_534;
/// The attempts that need only the sandbox, including for their controls, and so must hold everywhere.
const EVERYWHERE: &[&str] = &[
    "read_host_file",
    "read_another_sandbox",
    "host_loopback",
    "another_host_in_a_tunnel",
    "abstract_sockets",
    "credential_in_an_environment",
    "credential_in_memory",
    "credential_on_disk",
    "credential_at_another_host",
    "credential_in_an_echo",
    "new_user_namespace",
    "leaked_descriptors",
    "call_ptrace",
    "journal_of_a_cloned_repository",
    "lock_of_a_cloned_repository",
    "links_of_a_cloned_repository",
    "pipe_of_a_cloned_repository",
    "program_of_a_cloned_repository",
    "memory_in_netlink_queues",
];

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).expect("a directory").count()
}

/// Runs all attempts with an empty temporary directory, and checks that it is empty again afterward.
fn proved(mut command: Command, dir: &Path) -> Value {
    command.args(["doctor", "--prove", "--format", "json"]).current_dir("/").env("TMPDIR", dir);
    let ended = run(command, TIMEOUT);
    let output = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{output}{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(entries(dir), 0, "what it made is gone");
    let document: Value = serde_json::from_str(&output).expect("a document");
    assert_eq!(violations("prove", &document), [""; 0]);
    document
}

/// Returns the verdict of an attempt.
fn verdict<'d>(document: &'d Value, name: &str) -> &'d str {
    let all = document["attempts"].as_array().expect("a list");
    let found = all.iter().find(|attempt| attempt["name"] == name).expect("an attempt");
    found["verdict"].as_str().expect("a verdict")
}

fn holds(document: &Value) {
    let number = |key: &str| document[key].as_u64().expect("a number");
    assert_eq!(number("open"), 0, "{document:#}");
    let all = document["attempts"].as_array().expect("a list");
    assert_eq!(number("held") + number("not_testable"), all.len() as u64);
    for name in EVERYWHERE {
        assert_eq!(verdict(document, name), "held", "{name}: {document:#}");
    }
    // Controls change nothing of the host.
    assert_eq!(verdict(document, "write_to_usr"), "not-testable");
}

#[test]
fn every_attempt_is_listed() {
    let dir = tempfile::tempdir().expect("a directory");
    let document = proved(koze(), dir.path());
    holds(&document);
    assert_eq!(document["user"], rustix::process::geteuid().as_raw());
    assert!(document["kernel"].as_str().expect("a text").starts_with("Linux "));
}

#[test]
fn an_unprivileged_user_can_prove_it() {
    if !rustix::process::geteuid().is_root() {
        // In this case, the test above ran as an unprivileged user.
        return;
    }
    let shared = tempfile::tempdir().expect("a directory");
    let copy = shared.path().join("koze");
    let mut cp = Command::new("cp");
    cp.arg(koze().get_program()).arg(&copy);
    assert!(run(cp, TIMEOUT).status.success(), "a copy of koze");
    let dir = shared.path().join("work");
    fs::create_dir(&dir).expect("a directory");
    for (path, mode) in [(shared.path(), 0o755), (&dir, 0o1777)] {
        fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permissions");
    }
    let mut command = Command::new(copy);
    command.uid(NOBODY).gid(NOBODY);
    let document = proved(command, &dir);
    holds(&document);
    assert_eq!(document["user"], NOBODY);
    assert_eq!(verdict(&document, "set_the_time"), "not-testable", "its control needs root");
}

#[test]
fn a_killed_run_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = koze();
    command.args(["doctor", "--prove"]).env("TMPDIR", dir.path()).current_dir("/");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("koze");
    let made = || fs::read_dir(dir.path()).ok()?.flatten().next().map(|entry| entry.path());
    eventually("a sandbox is there", || made().is_some_and(|made| made.join("state-0").exists()));
    let memory = fs::read_to_string(made().expect("it is there").join("shared-memory")).expect("a number");
    let segments = || fs::read_to_string("/proc/sysvipc/shm").expect("the segments");
    let is_there = || segments().lines().any(|line| line.split_whitespace().nth(1) == Some(&memory));
    assert!(is_there());
    signal(i32::try_from(child.id()).expect("a process id"), Signal::KILL);
    child.wait().expect("its end");
    eventually("its files are gone", || entries(dir.path()) == 0);
    assert!(!is_there(), "its shared memory");
    let text = dir.path().to_string_lossy().into_owned();
    eventually("its processes are gone", || {
        processes(|args| args.iter().any(|arg| arg.starts_with(&text))).is_empty()
    });
}

/// The switches with which controls disable protections are not available from outside.
#[test]
fn no_environment_variable_weakens_a_sandbox() {
    let host = crate::common::sandboxes();
    host.write("held", "");
    let koze = host.command(&["call", "shell", r#"{"command": "ls -l /proc/self/fd"}"#]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 9< held && \"$0\" \"$@\" 9<&9"]).arg(koze.get_program()).args(koze.get_args());
    shell.envs(host.env()).env("KOZE_TESTING_KEEP_DESCRIPTORS", "1");
    let answered = host.run(shell);
    assert!(answered.code == 0 && !answered.stdout.contains("held"), "{answered:?}");
}
