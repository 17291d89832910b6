//! The egress policy in a Worker, without a Worker around it: what it lets through.

use koze_tests::{node_command, root, run};

use crate::project::TIMEOUT;

/// On the cases of the local sandboxes, too: both tell which addresses others lead to, and must agree.
#[test]
fn a_policy_judges_hosts_ports_and_addresses_in_disguise() {
    let mut node = node_command("node");
    node.arg(root().join("tests/tests/worker/egress.mjs"));
    node.arg(root().join("templates/files/worker/egress.mjs"));
    node.arg(root().join("local/src/network/egress/addresses.json"));
    let output = run(node, TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
