//! The local sandbox, end to end: as the user who runs the tests and, if that is root, again as an unprivileged user.
#![cfg(target_os = "linux")]

mod agent;
mod api;
mod browser;
mod code;
mod commands;
mod control_groups;
mod descriptors;
mod egress;
mod escapes;
#[path = "../../examples/agent.rs"]
mod example;
mod fetch;
mod files;
mod groups;
mod guest;
#[path = "../../../script/tests/hostile/mod.rs"]
mod hostile;
mod images;
mod layers;
mod life;
mod limits;
mod loaded;
mod machine;
mod owners;
mod preview;
mod processes;
mod program;
mod scene;
mod scripted;
mod scripts;
mod server;
mod sight;
mod stage;
mod statements;
mod streaming;
mod tools;
mod transfer;
mod visible_limits;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};

/// The argument of the unprivileged run, and the user and group of `nobody`.
const PLAIN: &str = "KOZE_TEST_PLAIN";
const NOBODY: u32 = 65_534;

type Test = (&'static str, fn() -> Result<(), libtest_mimic::Failed>);

/// Reads the arguments of a test program.
fn read_arguments() -> Arguments {
    let mut arguments = Arguments::from_args();
    // Like the standard test harness, unless `cargo xtask test` sets more for this one.
    let threads = |name| std::env::var(name).ok()?.parse().ok();
    let threads = ["KOZE_TEST_LOCAL_THREADS", "RUST_TEST_THREADS"].into_iter().find_map(threads);
    arguments.test_threads = arguments.test_threads.or(threads);
    arguments
}

/// Runs as one of the programs that tests start, if the first argument names it.
fn play_role() -> Option<ExitCode> {
    Some(match std::env::args().nth(1)?.as_str() {
        life::SUPERVISOR => life::supervise(),
        life::FORBIDDEN => life::open_where_forbidden(),
        transfer::TRANSFERS => transfer::transfer_on(),
        server::SERVER => server::run(),
        limits::HOG => limits::hog(),
        limits::DESCRIPTORS => limits::many_descriptors(),
        limits::SOCKETS => limits::hold_in_sockets(),
        limits::NETLINK => limits::hold_in_netlink(),
        processes::HOST => processes::run(),
        program::LINGER => program::linger(),
        program::WATCH => program::watch(),
        program::AHEAD => program::kill_what_is_made_ahead(),
        groups::READER => groups::read(),
        descriptors::SEND => descriptors::send(),
        descriptors::COLLECT => descriptors::collect(),
        descriptors::FEW => descriptors::few(),
        fetch::MACHINE => fetch::fetch_with_machine_authorities(),
        control_groups::GROUP => control_groups::alone(),
        "--measure" => {
            life::measure();
            ExitCode::SUCCESS
        }
        _ => return None,
    })
}

/// Returns the tests of all modules. The unprivileged run leaves out those that are not about users.
fn all_tests(plain: bool) -> Vec<Test> {
    let once: &[Test] = if plain { &[] } else { egress::programs::TESTS };
    [
        commands::TESTS,
        files::TESTS,
        guest::TESTS,
        program::TESTS,
        machine::TESTS,
        sight::TESTS,
        limits::TESTS,
        control_groups::TESTS,
        visible_limits::TESTS,
        descriptors::TESTS,
        images::TESTS,
        layers::TESTS,
        life::TESTS,
        owners::TESTS,
        egress::credentials::TESTS,
        egress::limits::TESTS,
        once,
        egress::policy::TESTS,
        egress::proxy::TESTS,
        egress::scripts::TESTS,
        egress::transparent::TESTS,
        egress::tunnel::TESTS,
        preview::TESTS,
        processes::TESTS,
        tools::TESTS,
        streaming::TESTS,
        code::TESTS,
        api::TESTS,
        agent::TESTS,
        transfer::TESTS,
        scripts::TESTS,
        statements::TESTS,
        fetch::TESTS,
        browser::TESTS,
        escapes::TESTS,
    ]
    .concat()
}

fn main() -> ExitCode {
    koze_local::init();
    if std::env::var_os(agent::EXAMPLE).is_some() {
        return example::main();
    }
    if let Some(code) = koze_local::prove::init() {
        return code;
    }
    if let Some(code) = play_role() {
        return code;
    }
    let plain = std::env::var_os(PLAIN).is_some();
    let arguments = read_arguments();
    let kind = if plain { "plain user" } else { "this user" };
    let is_left_out = browser::left_out(plain);
    let tests = all_tests(plain)
        .into_iter()
        .map(|(name, run)| Trial::test(name, run).with_kind(kind).with_ignored_flag(is_left_out(name)));
    let trials = tests.chain(escapes::trials(kind)).chain(groups::trials(kind)).collect();
    let failed = libtest_mimic::run(&arguments, trials).has_failed();
    if failed || plain || !stage::is_root() || arguments.list {
        return if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    as_nobody()
}

/// Runs everything again, from a copy that the unprivileged user can access.
fn as_nobody() -> ExitCode {
    let scratch = tempfile::tempdir().unwrap();
    let copy = scratch.path().join("local");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    // Its owner is the user who runs it, as for an installed program.
    std::os::unix::fs::chown(&copy, Some(NOBODY), Some(NOBODY)).unwrap();
    stage::open_to_all(scratch.path());
    let status = Command::new(copy)
        .args(std::env::args_os().skip(1))
        .env(PLAIN, "1")
        .env_remove("TMPDIR")
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .status()
        .unwrap();
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
