//! The conformance suite of the agent's tools over HTTP: the Worker of a new project in workerd, with its sandboxes in
//! real containers.

use std::sync::Arc;

use koze_tests::conformance::http::{Http, Options, play};
use koze_tests::conformance::{Capability, Host};

use super::engine::engine;
use super::project::{TOKEN, rust_worker, start};

#[test]
fn the_tools_conform_in_containers() {
    let Some(engine) = engine() else { return };
    let worker = rust_worker(&engine);
    let dev = start(&worker, &engine);
    let host = Http::new(&dev.url.replacen("127.0.0.1", "localhost", 1), TOKEN);
    let mut lacks = host.lacks().unwrap_or_else(|error| panic!("{error}\n{}", dev.said()));
    for (capability, reason) in LACKS {
        lacks.push((capability, reason.to_owned()));
    }
    let host: Arc<dyn Host> = Arc::new(host);
    // A part of them, while one looks for a fault.
    let filter = std::env::var("KOZE_TEST_CASES").ok();
    let options = Options { lacks, at_once: Some(4), filter };
    let good = play("koze dev", &host, &options);
    assert!(good, "some cases have failed: see above\n{}", engine.log());
}

/// What containers on one machine cannot do.
const LACKS: [(Capability, &str); 3] = [
    (Capability::Big, "a gigabyte takes its time, and is the same in pieces as eight megabytes"),
    (
        Capability::Limits,
        "a container of this machine has no limits: on Cloudflare it is a machine of its own",
    ),
    (Capability::Keep, "the files of a container go when it sleeps"),
];
