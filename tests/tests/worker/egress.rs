//! The egress policy of a Worker, tested without a Worker.

use std::collections::BTreeSet;

use koze_tests::{node_command, root, run};

use crate::project::TIMEOUT;

/// Includes the cases of local sandboxes: both implementations must find the same embedded addresses, and refuse the same ones to
/// scripts.
#[test]
fn a_policy_checks_hosts_ports_and_embedded_addresses() {
    let mut node = node_command("node");
    node.arg(root().join("tests/tests/worker/egress.mjs"));
    node.arg(root().join("templates/files/generated/koze/egress.mjs"));
    node.arg(root().join("core/src/egress/addresses.json"));
    node.arg(root().join("templates/files/generated/koze/script-fetch.mjs"));
    node.arg(root().join("core/src/egress/public.json"));
    node.arg(root().join("templates/files/generated/koze/requests.mjs"));
    let output = run(node, TIMEOUT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Programs find the certificate authority through the same variables.
#[test]
fn local_sandboxes_and_containers_name_the_authority_in_the_same_variables() {
    let names = |file: &str, list: &str| {
        let text = fs_err::read_to_string(root().join(file)).expect(file);
        let (_, rest) = text.split_once(list).expect(list);
        let (list, _) = rest.split_once("];").expect("its end");
        let names = list.split('"').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
        assert!(names.len() > 5, "{names:?}");
        names
    };
    let worker = names("templates/files/generated/koze/platform.mjs", "const AUTHORITIES = [");
    assert_eq!(worker, names("egress/src/inspection.rs", "const TRUST_VARIABLES: [&str; 9] = ["));
}

/// Programs get the same variables and the same text from both.
#[test]
fn local_sandboxes_and_containers_say_the_same() {
    let read = |file: &str| fs_err::read_to_string(root().join(file)).expect(file);
    let worker = read("templates/files/generated/koze/calls.mjs");
    let local = read("egress/src/lib.rs") + &read("egress/src/refusals.rs");
    for text in [
        "PIP_RETRIES",
        "npm_config_fetch_retries",
        "UV_HTTP_RETRIES",
        "egress_refused: the network policy of the sandbox refused ",
    ] {
        assert!(worker.contains(text) && local.contains(text), "{text}");
    }
}
