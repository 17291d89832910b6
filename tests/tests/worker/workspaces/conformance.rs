//! The cases of the tools `workspace` on every backend over HTTP, and on one of them over the Model Context Protocol.

use std::sync::Arc;

use koze_tests::conformance::http::{Http, Mcp, Options, play_all};
use koze_tests::conformance::{Capability, Host, check_workspace_answers, workspace_cases};

use super::project::{Backend, serve, worker};
use crate::dev::run::Dev;
use crate::served::TOKEN;

#[test]
fn native_workspaces_conform() {
    let worker = worker(Backend::Native);
    let host = serve(&worker, Backend::Native);
    serves_all_cases(host.url());
    conforms("native workspaces", host.url(), CONTAINERS);
    conforms_over_mcp("native workspaces, MCP", host.url(), CONTAINERS);
}

#[test]
fn sdk_workspaces_conform() {
    let worker = worker(Backend::Sdk);
    let host = serve(&worker, Backend::Sdk);
    conforms("sdk workspaces", host.url(), CONTAINERS);
}

#[test]
fn dev_workspaces_conform() {
    let worker = worker(Backend::Sdk);
    let dev = Dev::start(&worker);
    conforms("workspaces of koze dev --local", &dev.url, DEV);
}

/// What the stand-ins lack.
const CONTAINERS: &[(Capability, &str)] = &[
    (Capability::Restart, "no request ends a Worker"),
    (Capability::PlainUser, "programs of the stand-ins are root"),
];

const DEV: &[(Capability, &str)] = &[(Capability::Restart, "no request ends a Worker")];

/// The whole suite finds its workspaces.
fn serves_all_cases(url: &str) {
    let parts = Http::new(url, TOKEN).parts().expect("a Worker that answers");
    let counts: Vec<_> = parts.iter().map(|part| (part.family, part.cases.len())).collect();
    assert_eq!(counts, [("agent", 0), ("workspace", workspace_cases().len()), ("script", 0)]);
}

fn conforms(name: &str, url: &str, lacks: &[(Capability, &str)]) {
    let host: Arc<dyn Host> = Arc::new(Http::new(url, TOKEN));
    play(name, &host, "answers over HTTP", lacks);
}

/// What receives messages of the protocol does not know the backend.
fn conforms_over_mcp(name: &str, url: &str, lacks: &[(Capability, &str)]) {
    let no_html = (Capability::Html, "models read the text");
    let host: Arc<dyn Host> = Arc::new(Mcp(Http::new(url, TOKEN)));
    play(name, &host, "answers over MCP", &[lacks, &[no_html]].concat());
}

/// Runs the cases, and a fixed sequence of calls whose answers are committed.
fn play(name: &str, host: &Arc<dyn Host>, answers: &str, lacks: &[(Capability, &str)]) {
    let lacks = lacks.iter().map(|(capability, why)| (*capability, (*why).to_owned())).collect();
    // `KOZE_TEST_CASES` selects some of them, to investigate a failure.
    let filter = std::env::var("KOZE_TEST_CASES").ok();
    let options = Options { lacks, at_once: Some(4), filter, ..Options::default() };
    check_workspace_answers(&**host, answers);
    // Snapshots have tests of their own, with stores.
    let mut cases = workspace_cases();
    cases.retain(|case| !case.name.contains("snapshot"));
    assert!(play_all(name, host, cases, &options), "some cases have failed: see above");
}
