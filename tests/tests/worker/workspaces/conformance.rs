//! The cases of the tools `workspace` on every backend, over HTTP and over the Model Context Protocol.

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

/// Runs the cases, and a fixed sequence of calls whose answers are committed.
fn conforms(name: &str, url: &str, lacks: &[(Capability, &str)]) {
    let lacks: Vec<_> = lacks.iter().map(|(capability, why)| (*capability, (*why).to_owned())).collect();
    // `KOZE_TEST_CASES` selects some of them, to investigate a failure.
    let filter = std::env::var("KOZE_TEST_CASES").ok();
    let no_html = (Capability::Html, "models read the text".to_owned());
    let hosts: [(&str, Arc<dyn Host>, Vec<_>); 2] = [
        ("HTTP", Arc::new(Http::new(url, TOKEN)), lacks.clone()),
        ("MCP", Arc::new(Mcp(Http::new(url, TOKEN))), [lacks, vec![no_html]].concat()),
    ];
    for (transport, host, lacks) in hosts {
        let options = Options { lacks, at_once: Some(4), filter: filter.clone(), ..Options::default() };
        check_workspace_answers(&*host, &format!("answers over {transport}"));
        // Snapshots have tests of their own, with stores.
        let mut cases = workspace_cases();
        cases.retain(|case| !case.name.contains("snapshot"));
        let good = play_all(&format!("{name}, {transport}"), &host, cases, &options);
        assert!(good, "some cases have failed: see above");
    }
}
