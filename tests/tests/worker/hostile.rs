//! Hostile answers of containers to the sandbox classes, and responses of programs in them.

use koze_tests::{node_command, root, run};

use crate::project::TIMEOUT;

/// The control looks up the container's words in plain objects.
#[test]
fn answers_of_a_container_are_data_and_cookies_are_confined() {
    let mut node = node_command("node");
    node.arg(root().join("tests/tests/worker/hostile.mjs"))
        .arg(root().join("templates/files/generated/koze"));
    let output = run(node, TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
