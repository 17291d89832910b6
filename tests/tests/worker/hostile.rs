//! What containers may say to the classes of sandboxes, and what programs in them answer.

use koze_tests::{node_command, root, run};

use crate::project::TIMEOUT;

/// With a control, in which words of the container are looked up in plain objects.
#[test]
fn words_of_a_container_are_data_and_cookies_stay_with_their_host() {
    let mut node = node_command("node");
    node.arg(root().join("tests/tests/worker/hostile.mjs")).arg(root().join("templates/files/worker"));
    let output = run(node, TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
