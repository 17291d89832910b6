//! The guest as the first process of a container, over TCP, in namespaces created by `unshare`. If the tests do not run
//! as root, these are unprivileged namespaces.
#![cfg(target_os = "linux")]

mod archives;
mod beside;
mod client;
mod edits;
mod end;
mod files;
mod hostile;
mod image;
mod probes;
mod processes;
mod programs;
mod searches;
mod stage;
mod streams;
mod token;
mod tunnels;
mod unauthenticated;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

type Test = (&'static str, fn());

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(probes::PROBE) {
        return probes::run();
    }
    let mut arguments = Arguments::from_args();
    // Like the standard test harness.
    let threads = || std::env::var("RUST_TEST_THREADS").ok()?.parse().ok();
    arguments.test_threads = arguments.test_threads.or_else(threads);
    let all = [
        archives::TESTS,
        beside::TESTS,
        edits::TESTS,
        searches::TESTS,
        end::TESTS,
        files::TESTS,
        hostile::TESTS,
        image::TESTS,
        processes::TESTS,
        programs::TESTS,
        unauthenticated::TESTS,
        streams::TESTS,
        token::TESTS,
        tunnels::TESTS,
    ];
    let trial = |(name, test): &Test| {
        let test = *test;
        Trial::test(*name, move || {
            std::panic::catch_unwind(test).map_err(|panic| {
                let message = panic.downcast_ref::<String>().map(String::as_str);
                Failed::from(message.or_else(|| panic.downcast_ref().copied()).unwrap_or("it panicked"))
            })
        })
    };
    libtest_mimic::run(&arguments, all.concat().iter().map(trial).collect()).exit_code()
}
