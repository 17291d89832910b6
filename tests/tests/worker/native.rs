//! The class with koze's guest, in workerd: it implements the contract in a stand-in for its container that runs the
//! real guest as its first process, whatever happens to either of them.

use std::os::unix::fs::PermissionsExt;

use fs_err as fs;
use koze_tests::{root, run};
use serde_json::Value;

use crate::project::{TIMEOUT, made};

/// The sandboxes: one without network access, and one with limited access.
const SANDBOXES: [(&str, &str); 2] = [
    (
        "src/server/shell.sandbox.rs",
        "use koze::sandbox;\n\n/// A shell.\n\
         #[sandbox(backend = \"native\", image = \"debian:12-slim\", env_vars(GREETING = \"hello 'you'\"), \
         sleep_after = \"5m\", default)]\npub struct ShellSandbox;\n",
    ),
    (
        "src/server/net.sandbox.rs",
        "use koze::sandbox;\n\n/// A shell that reaches one host.\n\
         #[sandbox(backend = \"native\", image = \"debian:12-slim\", allowed_hosts = [\"example.com\"])]\n\
         pub struct NetSandbox;\n",
    ),
];

#[test]
fn it_implements_the_contract_whatever_happens_to_its_container() {
    let worker = made("native");
    let project = &worker.project;
    for (path, text) in SANDBOXES {
        project.write(path, text);
    }
    // `koze new` has built the project with another backend.
    for file in ["koze.lock", "wrangler.jsonc"] {
        fs::remove_file(project.path(file)).expect("what was built");
    }
    let built = project.koze(&["build"]);
    assert_eq!(built.code, 0, "{built:?}");
    let guest = project.path("src/generated/native/koze-guest");
    fs::set_permissions(&guest, PermissionsExt::from_mode(0o755)).expect("a program");

    let mut node = project.node("node");
    node.arg(root().join("tests/tests/worker/native/main.mjs")).args([project.dir(), &guest]);
    let output = run(node, TIMEOUT);
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{stdout}{stderr}");
    let lines = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let (printed, planned): (Vec<Value>, Vec<Value>) = lines.partition(|line| line["planned"].is_null());
    assert_eq!(planned[0]["planned"][0], printed.len(), "some did not run\n{stdout}{stderr}");
    let failed: Vec<String> = printed
        .iter()
        .filter_map(|line| Some(format!("{}: {}", line["name"], line["error"].as_str()?)))
        .collect();
    assert!(failed.is_empty(), "{}\n{stderr}", failed.join("\n\n"));
}
