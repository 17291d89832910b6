//! The class over Cloudflare's SDK, in workerd: it implements the contract in a stand-in for its container that has all
//! pitfalls of the real one, and each of its workarounds is needed.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use koze_tests::{Project, root, run};
use serde_json::{Value, json};

use crate::project::{TIMEOUT, made};

/// The sandboxes: one without network access, and one with limited access.
const SANDBOXES: [(&str, &str); 2] = [
    (
        "src/server/shell.sandbox.rs",
        "use koze::sandbox;\n\n/// A shell.\n\
         #[sandbox(env_vars(GREETING = \"hello 'you'\"), sleep_after = \"5m\", default)]\npub struct ShellSandbox;\n",
    ),
    (
        "src/server/net.sandbox.rs",
        "use koze::sandbox;\n\n/// A shell that reaches one host.\n\
         #[sandbox(allowed_hosts = [\"example.com\"])]\npub struct NetSandbox;\n",
    ),
];

/// The result of each case, and of each mutation with the case that it must fail: the error, if any.
struct Played {
    cases: BTreeMap<String, Option<String>>,
    mutations: BTreeMap<String, Option<String>>,
}

/// All results, from one workerd.
static PLAYED: LazyLock<Played> = LazyLock::new(|| {
    let worker = made("sdk");
    let project = &worker.project;
    for (path, text) in SANDBOXES {
        project.write(path, text);
    }
    let built = project.koze(&["build"]);
    assert_eq!(built.code, 0, "{built:?}");
    play(project)
});

fn play(project: &Project) -> Played {
    let mut node = project.node("node");
    node.arg(root().join("tests/tests/worker/sdk/main.mjs")).arg(project.dir());
    let output = run(node, TIMEOUT);
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{stdout}{stderr}");
    let mut played = Played { cases: BTreeMap::new(), mutations: BTreeMap::new() };
    let mut planned = Value::Null;
    // workerd's messages about ended containers are between the lines.
    for line in stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let text = |key: &str| line[key].as_str().map(str::to_owned);
        match (text("name"), text("mutation")) {
            (_, Some(mutation)) => drop(played.mutations.insert(mutation, text("error"))),
            (Some(name), None) => drop(played.cases.insert(name, text("error"))),
            (None, None) => planned = line["planned"].clone(),
        }
    }
    let counted = json!([played.cases.len(), played.mutations.len()]);
    assert_eq!(planned, counted, "some did not run\n{stdout}{stderr}");
    played
}

#[test]
fn it_implements_the_contract() {
    let failed: Vec<_> = PLAYED
        .cases
        .iter()
        .filter_map(|(name, error)| Some(format!("{name}: {}", error.as_ref()?)))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn each_workaround_is_needed() {
    let survived: Vec<_> =
        PLAYED.mutations.iter().filter(|(_, error)| error.is_none()).map(|(name, _)| name).collect();
    assert!(survived.is_empty(), "without these, no case fails: {survived:?}");
}
