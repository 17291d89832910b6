//! `cargo xtask test`: every test of the workspace, with what they need.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::{Result, guest, process, setup};

/// How many tests of one program run at once: the standard harness takes it from here, and so do ours.
const THREADS: &str = "RUST_TEST_THREADS";

/// Runs `cargo test` on this terminal, so that its closing lines stand as cargo prints them.
pub(crate) fn run(root: &Path, args: &[OsString]) -> Result<ExitCode> {
    setup::run(root)?;
    if args.is_empty() {
        // Sooner said than after all tests.
        guest::run(root, &guest::Args { check: true })?;
    }
    let mut all = cargo(root)?;
    all.args(["test", "--workspace", "--no-fail-fast"]).args(args);
    if args.is_empty() {
        // Cargo builds it with the tests of its own package. For the others' alone, it would be compiled anew, with what
        // it depends on, for the features are not the same.
        all.env("KOZE_TEST_PROGRAM", beside()?.join("koze"));
    }
    let code = run_one(&mut all)?;
    Ok(ExitCode::from(code))
}

fn cargo(root: &Path) -> Result<Command> {
    let mut cargo = process::cargo(root);
    cargo
        .env("PATH", process::path_with(&root.join("tests/node_modules/.bin"))?)
        .env("WRANGLER_SEND_METRICS", "false");
    if std::env::var_os(THREADS).is_none() {
        // A test waits for a good part of its time: for a program, the disk, something that must not happen. With many more
        // than there are processors, what has to come in time does not.
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        cargo.env(THREADS, (processors + 1).to_string());
    }
    Ok(cargo)
}

/// Where cargo has put this very program, and puts the others.
fn beside() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    Ok(this.parent().ok_or("this program lies nowhere")?.to_owned())
}

fn run_one(cargo: &mut Command) -> Result<u8> {
    let status = process::status(cargo, "install rustup, which brings cargo")?;
    // A signal leaves no code.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
