//! The conformance suite of the agent's tools over HTTP: the Worker of a new project in workerd, with sandboxes in real
//! containers.

use std::sync::{Arc, LazyLock};

use koze_tests::conformance::http::{Http, Options, play};
use koze_tests::conformance::{Capability, Host};
use koze_tests::containers::Engine;

use super::engine::engine;
use super::images::{MANAGED, ROOT, SDK, Variant};
use super::project::{TOKEN, rust_worker, start, worker_of};
use crate::agents::DIFFERENT;
use crate::archives;
use crate::project::Worker;

#[test]
fn the_tools_conform_in_containers() {
    let Some(engine) = engine() else { return };
    // `KOZE_TEST_IMAGE` selects another image, to investigate differences.
    let worker = match std::env::var("KOZE_TEST_IMAGE") {
        Ok(name) => worker_of(Variant::asked(&name), &engine),
        Err(_) => rust_worker(&engine),
    };
    conforms(&worker, &engine, false, &[]);
}

/// The cases that depend on users and on the contents of images: programs that run as root, shell startup files,
/// `/etc/shadow`.
#[test]
fn the_tools_conform_as_root_in_a_furnished_image() {
    let Some(engine) = engine() else { return };
    conforms(&worker_of(&ROOT, &engine), &engine, false, DIFFERENT);
}

/// The SDK's own class and server in real containers. Other tests of the class use a stand-in for the engine.
#[test]
fn the_tools_conform_over_the_sdk() {
    let Some(engine) = engine() else { return };
    conforms(&worker_of(&SDK, &engine), &engine, false, DIFFERENT);
}

/// Containers that the Durable Object starts, and whose guest is that of all others. Those of the cases that sleep are
/// restored from their disks.
#[test]
fn the_tools_conform_in_managed_containers() {
    static CASES: LazyLock<Vec<&str>> = LazyLock::new(|| [DIFFERENT, &SLEEPING].concat());
    let Some(engine) = engine() else { return };
    conforms(&worker_of(&MANAGED, &engine), &engine, true, &CASES);
}

/// The cases whose sandboxes sleep.
const SLEEPING: [&str; 2] = ["files_outlive_sleep", "idle_sandboxes_sleep_and_wake"];

#[test]
fn directories_are_archives_in_containers() {
    let Some(engine) = engine() else { return };
    for worker in [rust_worker(&engine), worker_of(&SDK, &engine)] {
        archives::conform(&start(&worker, &engine), TOKEN);
    }
}

/// Runs these cases, or all if empty.
fn conforms(worker: &Worker, engine: &Engine, keeps_files: bool, only: &'static [&'static str]) {
    let dev = start(worker, engine);
    let host = Http::new(&dev.url.replacen("127.0.0.1", "localhost", 1), TOKEN);
    let mut lacks = host.lacks().unwrap_or_else(|error| panic!("{error}\n{}", dev.output()));
    for (capability, reason) in LACKS {
        if capability != Capability::Keep || !keeps_files {
            lacks.push((capability, reason.to_owned()));
        }
    }
    let host: Arc<dyn Host> = Arc::new(host);
    // `KOZE_TEST_CASES` selects some of them, to investigate a failure.
    let filter = std::env::var("KOZE_TEST_CASES").ok();
    let options = Options { lacks, at_once: Some(4), filter, only };
    let good = play("koze dev", &host, &options);
    assert!(good, "some cases have failed: see above\n{}", engine.log());
}

/// The capabilities that containers on one machine lack.
const LACKS: [(Capability, &str); 3] = [
    (Capability::Big, "a gigabyte takes its time, and is the same in pieces as eight megabytes"),
    (
        Capability::Limits,
        "a container of this machine has no limits: on Cloudflare it is a machine of its own",
    ),
    (Capability::Keep, "the files of a container go when it sleeps"),
];
