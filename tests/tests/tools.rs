//! Checks that the tools of the other tests are installed in the versions of the lock file.

use std::time::Duration;

use koze_tests::{node_command, run};

/// Returns the output of `bin --version`.
fn version(bin: &str) -> String {
    let mut command = node_command(bin);
    command.arg("--version");
    let output = run(command, Duration::from_mins(1));
    assert!(output.status.success(), "{bin}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn node_is_22() {
    let node = version("node");
    assert!(node.starts_with("v22."), "{node}");
}

#[test]
fn wrangler_is_the_one_of_the_lock_file() {
    assert_eq!(version("wrangler"), "4.164.0");
}

#[test]
fn tsc_runs() {
    assert_eq!(version("tsc"), "Version 7.0.2");
}
