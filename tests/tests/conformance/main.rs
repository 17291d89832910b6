//! Runs the cases of `koze_tests::conformance` once on every host. If the tests run as root, the sandboxes of this
//! machine are also tested as an unprivileged user.

#[cfg(target_os = "linux")]
mod command;
#[cfg(target_os = "linux")]
mod engine;
#[cfg(target_os = "linux")]
mod generated;
mod in_process;
#[cfg(target_os = "linux")]
mod network;
mod operations;
#[cfg(target_os = "linux")]
mod plain;
mod process;
mod schema;
mod script;
mod session;
mod store;
#[cfg(target_os = "linux")]
mod without_namespaces;
mod workspace;

use std::process::ExitCode;

use koze_tests::conformance::{Capability, Case, Host, Session, cases};
use libtest_mimic::{Arguments, Failed, Trial};

/// A kind of host. Each case gets its own instance.
struct Hosted {
    name: &'static str,
    /// The capabilities that it lacks or need not demonstrate again.
    lacks: &'static [Capability],
    start: fn() -> Box<dyn Host>,
}

fn hosts() -> Vec<Hosted> {
    let mut all = vec![in_process::MEMORY];
    #[cfg(target_os = "linux")]
    all.extend([in_process::LOCAL, generated::HOST, command::HOST]);
    #[cfg(target_os = "linux")]
    if engine::can_run() {
        all.extend([in_process::ENGINE, without_namespaces::HOST]);
    }
    all
}

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    koze_local::init();
    let mut arguments = Arguments::from_args();
    // As in the standard harness.
    let threads = || std::env::var("RUST_TEST_THREADS").ok()?.parse().ok();
    arguments.test_threads = arguments.test_threads.or_else(threads);
    #[cfg(target_os = "linux")]
    if plain::is_plain() {
        return run(&arguments, vec![plain::LOCAL], Vec::new());
    }
    #[cfg(target_os = "linux")]
    if arguments.filter.is_none() && !arguments.list {
        // Compile it while the first hosts run.
        std::thread::spawn(koze_tests::generated_program);
    }
    let code = run(
        &arguments,
        hosts(),
        [
            schema::trials(),
            process::trials(),
            session::trials(),
            store::trials(),
            operations::trials(),
            workspace::trials(),
            script::trials(),
            #[cfg(target_os = "linux")]
            engine::trials(),
            #[cfg(target_os = "linux")]
            network::trials(),
            #[cfg(target_os = "linux")]
            without_namespaces::trials(),
        ]
        .into_iter()
        .flatten()
        .collect(),
    );
    #[cfg(target_os = "linux")]
    if code == ExitCode::SUCCESS && plain::is_root() && !arguments.list {
        return plain::run();
    }
    code
}

fn run(arguments: &Arguments, hosts: Vec<Hosted>, mut trials: Vec<Trial>) -> ExitCode {
    for host in hosts {
        let can: Vec<Capability> =
            Capability::ALL.into_iter().filter(|capability| !host.lacks.contains(capability)).collect();
        let mut left_out = Vec::new();
        for case in cases() {
            #[cfg(target_os = "linux")]
            if host.name == in_process::ENGINE.name && !engine::plays(case.name) {
                continue;
            }
            #[cfg(target_os = "linux")]
            if host.name == without_namespaces::HOST.name && !without_namespaces::plays(case.name) {
                continue;
            }
            let reason = case.left_out(&can);
            left_out.extend(reason.clone().map(|reason| (case.name, reason)));
            trials.push(trial(&host, can.clone(), case, reason));
        }
        if !arguments.list {
            eprintln!("{}: {} cases left out", host.name, left_out.len());
            for (case, reason) in left_out {
                eprintln!("  {case} {reason}");
            }
        }
    }
    if libtest_mimic::run(arguments, trials).has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A case that is left out is ignored. If it is requested explicitly, it fails with the reason.
fn trial(host: &Hosted, can: Vec<Capability>, case: Case, left_out: Option<String>) -> Trial {
    let (start, ignored) = (host.start, left_out.is_some());
    let play = move || {
        if let Some(reason) = left_out {
            return Err(Failed::from(reason));
        }
        (case.play)(&Session::new(&*start(), &can, case.name));
        Ok(())
    };
    Trial::test(case.name, play).with_kind(host.name).with_ignored_flag(ignored)
}
