//! The browser of scripts in workerd, over a stand-in for the platform's binding with a Chromium of this machine.

use std::thread;
use std::time::{Duration, Instant};

use koze_tests::conformance::origin;
use serde_json::{Value, json};

use super::{LACKS, call, conforms, serve_with, worker_with};
use crate::project::Worker;
use crate::served::Host;

/// Returns whether this machine has Chromium, without which the tests are left out. Continuous integration runs all of them.
fn is_missing() -> bool {
    let Err(missing) = koze_local::check_browser() else { return false };
    assert!(std::env::var_os("CI").is_none(), "the browser cannot be tested: {missing}");
    eprintln!("the tests of the browser in a Worker are left out: {missing}");
    true
}

fn worker(keys: &str) -> Worker {
    worker_with(&format!("{keys}browser = true\n"), None)
}

#[test]
fn browsers_conform() {
    if is_missing() {
        return;
    }
    let worker = worker("internet = true\n");
    let origin = format!("http://{}", origin::start());
    let host = serve_with(&worker, json!({ "origin": origin, "browser": "BROWSER" }));
    conforms("scripts with a browser in a Worker", host.url(), LACKS);
}
