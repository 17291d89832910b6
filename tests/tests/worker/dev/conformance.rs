//! The conformance suite of the agent's tools over HTTP, on the Worker of a new project run by `koze dev --local`.

use std::sync::{Arc, Mutex, PoisonError};

use koze_tests::conformance::http::{Http, Options, play};
use koze_tests::conformance::{Capability, Host, Session, ToolResult, cases};
use serde_json::Value;

use super::run::Dev;
use crate::archives;
use crate::project::Worker;
use crate::served::rust_worker;

const TOKEN: &str = "a token of the conformance suite";

/// Creates a project with a second image and the Rust Worker.
fn worker() -> Worker {
    let worker = rust_worker();
    worker.project.write(".dev.vars", format!("KOZE_TOKEN=\"{TOKEN}\"\n"));
    worker
}

/// Returns its URL with a host name, because addresses cannot have subdomains.
fn url(dev: &Dev) -> String {
    dev.url.replacen("127.0.0.1", "localhost", 1)
}

#[test]
fn the_tools_conform() {
    let worker = worker();
    let dev = Dev::start(&worker);
    let host = Http::new(&url(&dev), TOKEN);
    let lacks = host.lacks().unwrap_or_else(|error| panic!("{error}\n{}", dev.output()));
    let names: Vec<Capability> = lacks.iter().map(|(capability, _)| *capability).collect();
    assert_eq!(names, LACKS, "{lacks:?}");
    let host: Arc<dyn Host> = Arc::new(host);
    let options = Options { lacks, at_once: Some(4), ..Options::default() };
    assert!(play("koze dev --local", &host, &options), "some cases have failed: see above");
}

#[test]
fn directories_are_archives() {
    let worker = worker();
    archives::conform(&Dev::start(&worker), TOKEN);
}

/// The capabilities that the Worker lacks unless it is restarted.
const LACKS: [Capability; 1] = [Capability::Restart];

#[test]
fn what_is_stored_survives_a_restart() {
    let worker = worker();
    let dev = Dev::start(&worker);
    let http = Http::new(&url(&dev), TOKEN);
    let host = Restarted { worker: &worker, running: Mutex::new((Some(dev), http)) };
    let can: Vec<Capability> = Capability::ALL
        .into_iter()
        .filter(|capability| *capability == Capability::Restart || !LACKS.contains(capability))
        .collect();
    let mut played = 0;
    for case in cases() {
        if case.needs.contains(&Capability::Restart) && case.left_out(&can).is_none() {
            (case.play)(&Session::new(&host, &can, case.name));
            played += 1;
        }
    }
    assert_ne!(played, 0, "no case has restarted it");
}

/// A Worker that can be restarted with all its processes.
struct Restarted<'w> {
    worker: &'w Worker,
    running: Mutex<(Option<Dev<'w>>, Http)>,
}

impl Host for Restarted<'_> {
    fn call(&self, session: &str, tool: &str, input: Value) -> ToolResult {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).1.call(session, tool, input)
    }

    fn call_text_of(&self, toolset: &str, session: &str, tool: &str, input: &str) -> ToolResult {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.1.call_text_of(toolset, session, tool, input)
    }

    /// Uses SIGKILL, which no process can handle.
    fn restart(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.0 = None;
        let dev = Dev::start(self.worker);
        running.1 = running.1.moved(&url(&dev));
        running.0 = Some(dev);
    }
}
