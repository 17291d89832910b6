//! `koze destroy`.

use insta::assert_snapshot;
use koze_tests::{Sandboxes, eventually, sleeps};
use serde_json::json;

use crate::common::{printed, sandboxes};

fn output(host: &Sandboxes, args: &[&str]) -> String {
    printed(&host.koze(args))
}

#[test]
fn a_sandbox_is_destroyed_with_its_files_and_programs() {
    let host = sandboxes();
    let seconds = format!("7001.{}", std::process::id());
    host.call("shell", &json!({ "sandbox": "a", "command": format!("echo x > f; sleep {seconds} &") }), &[]);
    host.call("write_file", &json!({ "sandbox": "b", "path": "f", "content": "y" }), &[]);
    eventually("its program runs", || sleeps(&seconds));
    assert_snapshot!(output(&host, &["destroy", "a"]), @"
    0
    destroyed a
    ");
    eventually("its program is gone", || !sleeps(&seconds));
    // The next sandbox with this name is new.
    let files = host.call("shell", &json!({ "sandbox": "a", "command": "ls -A" }), &[]);
    assert_eq!(files["stdout"], "");
    let kept = host.call("read_file", &json!({ "sandbox": "b", "path": "f" }), &[]);
    assert_eq!(kept["content"], "y");
}

#[test]
fn several_and_all() {
    let host = sandboxes();
    for name in ["a", "b", "c", "d"] {
        host.call("sandbox_create", &json!({ "sandbox": name }), &[]);
    }
    host.call("sandbox_create", &json!({ "sandbox": "a" }), &["--session", "other"]);
    assert_snapshot!(output(&host, &["destroy", "a", "none", "b"]), @"
    1
    destroyed a
    destroyed b
    error[not_found]: there is no sandbox `none` in this session
    ");
    assert_snapshot!(output(&host, &["destroy", "--all"]), @"
    0
    destroyed c
    destroyed d
    ");
    assert_snapshot!(output(&host, &["destroy", "--all"]), @"0");
    assert_snapshot!(output(&host, &["sandboxes"]), @"
    0
    SESSION  SANDBOX  IMAGE  STATUS
    other    a        shell  running
    ");
}

#[test]
fn a_sleeping_sandbox_is_destroyed() {
    let host = sandboxes();
    host.shell("echo x > f");
    host.kill_supervisors();
    assert_snapshot!(output(&host, &["destroy", "default"]), @"
    0
    destroyed default
    ");
    assert_eq!(host.shell("ls"), "");
}

#[test]
fn sandboxes_that_cannot_be_destroyed() {
    let host = sandboxes();
    assert_snapshot!(output(&host, &["destroy", "a", "b"]), @"
    1
    error[not_found]: there is no sandbox `a` in this session
    error[not_found]: there is no sandbox `b` in this session
    ");
    assert_snapshot!(output(&host, &["destroy", "--all"]), @"0");
    assert!(host.state().is_none(), "looking makes nothing");
    host.shell("true");
    assert_snapshot!(output(&host, &["destroy", "../a", ""]), @"
    1
    error[invalid_input]: a sandbox's name must have 1 to 20 lowercase letters, digits and inner hyphens
    error[invalid_input]: a sandbox's name must have 1 to 20 lowercase letters, digits and inner hyphens
    ");
    assert_eq!(host.koze(&["destroy"]).code, 2);
    assert_eq!(host.koze(&["destroy", "a", "--all"]).code, 2);
}
