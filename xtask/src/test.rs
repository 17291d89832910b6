//! `cargo xtask test`: runs every test of the workspace and installs what they need.

mod again;
mod space;

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;

use crate::committed::Args;
use crate::{Result, guest, platforms, process, script, setup, ui};

/// The variable for the number of tests that one program runs in parallel, for the standard harness and for ours.
const THREADS: &str = "RUST_TEST_THREADS";
/// The same for the tests of local sandboxes, which wait longer.
const LOCAL_THREADS: &str = "KOZE_TEST_LOCAL_THREADS";

/// The tests to run.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suite {
    /// Everything.
    Whole,
    /// The fast tests: no sandboxes, containers or workerd, no compilation of generated code, no random histories. Takes
    /// less than three minutes on two processors, after a build.
    Fast,
}

/// The test programs of the fast suite, in addition to the unit tests. They are chosen by cost, not by importance.
const FAST: [&str; 6] = ["cases", "frames", "golden", "published", "readme", "reference"];
/// The functional tests that the fast suite omits, because they run sandboxes or wait for supervisors.
const WITH_SANDBOXES: [&str; 13] = [
    "call::",
    "demo::",
    "destroy::",
    "exec::",
    "log::",
    "mcp::",
    "pages::",
    "prove::",
    "ps::",
    "run::",
    "sandboxes::",
    "supervisor::",
    "trust::",
];

/// Runs `cargo test` in this terminal, so that its last lines are those of cargo.
///
/// `config` is a configuration file for cargo. With `again`, tests that failed are run once more.
pub(crate) fn whole(root: &Path, config: Option<&Path>, again: bool, args: &[OsString]) -> Result<ExitCode> {
    if args.is_empty() {
        space::check(root);
    }
    setup::run(root)?;
    if args.is_empty() {
        // Fail before the tests rather than after them.
        check_committed(root)?;
        platforms::program_of_windows(root)?;
        if cfg!(target_os = "linux") {
            platforms::program_without_namespaces(root)?;
        }
    }
    let whole = || -> Result<Command> {
        let mut cargo = cargo(root)?;
        if let Some(config) = config {
            cargo.arg("--config").arg(config);
        }
        cargo.args(["test", "--workspace", "--no-fail-fast"]);
        if args.is_empty() {
            // The tests of the package build it anyway. Building it for the other tests alone would compile it and its
            // dependencies again, with other features.
            cargo.env("KOZE_TEST_PROGRAM", beside()?.join("koze"));
        }
        Ok(cargo)
    };
    if !again {
        return Ok(ExitCode::from(run_one(whole()?.args(args))?));
    }
    let (status, failed) = again::watch(&mut whole()?)?;
    let passed = status.success() || again::run(&failed, whole)?;
    Ok(ExitCode::from(if passed { 0 } else { code(status) }))
}

/// Checks what is committed and built, all at once: the guest is linked on one processor, for half of its time.
fn check_committed(root: &Path) -> Result<()> {
    let check = &Args { check: true };
    thread::scope(|scope| {
        let guest = scope.spawn(|| guest::run(root, check).map_err(|error| error.to_string()));
        // The compiler of its C code is installed on Linux only.
        if cfg!(target_os = "linux") {
            script::run(root, check)?;
        }
        ui::run(root, check)?;
        guest.join().map_err(|_| "the check of the guest panicked")??;
        Ok(())
    })
}

/// Runs the fast suite. It requires no installed tools except the npm packages.
pub(crate) fn fast(root: &Path) -> Result<ExitCode> {
    setup::npm::install(&root.join("tests"))?;
    let program = beside()?.join("koze");
    let run = |args: &[&str]| {
        let mut cargo = cargo(root)?;
        // Always for the whole workspace: other selections have other features, and cargo would rebuild.
        cargo.args(["test", "--workspace", "--no-fail-fast"]).args(args);
        // The tests of its package build it, as in the whole suite.
        run_one(cargo.env("KOZE_TEST_PROGRAM", &program))
    };
    let tests: Vec<&str> = FAST.iter().flat_map(|test| ["--test", test]).collect();
    let code = run(&[&["--lib", "--bins"], &tests[..]].concat())?;
    let left_out: Vec<&str> = WITH_SANDBOXES.iter().flat_map(|module| ["--skip", module]).collect();
    let functional = run(&[&["--test", "functional", "--"], &left_out[..]].concat())?;
    Ok(ExitCode::from(code.max(functional)))
}

fn cargo(root: &Path) -> Result<Command> {
    let mut cargo = process::cargo(root);
    cargo
        .env("PATH", process::path_with(&root.join("tests/node_modules/.bin"))?)
        .env("WRANGLER_SEND_METRICS", "false")
        // Node compiles wrangler's fifteen megabytes at each of its starts otherwise.
        .env("NODE_COMPILE_CACHE", root.join("target/node"));
    if std::env::var_os(THREADS).is_none() {
        // Tests spend much of their time waiting for programs, the disk, or the absence of an event. With far more
        // tests than processors, though, timeouts would expire.
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        cargo.env(THREADS, (processors + 2).to_string());
        cargo.env(LOCAL_THREADS, (processors + 3).to_string());
    }
    Ok(cargo)
}

/// Returns the directory of this program, where cargo puts the others, too.
fn beside() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    Ok(this.parent().ok_or("the path of this program has no directory")?.to_owned())
}

fn run_one(cargo: &mut Command) -> Result<u8> {
    let status = process::status(cargo, "install rustup, which brings cargo")?;
    Ok(code(status))
}

fn code(status: ExitStatus) -> u8 {
    // A process that was killed by a signal has no exit code.
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
