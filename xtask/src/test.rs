//! `cargo xtask test`: every test of the workspace, with what they need.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::{Result, guest, process, setup};

/// Runs `cargo test` on this terminal, so that its closing lines stand as cargo prints them.
pub(crate) fn run(root: &Path, args: &[OsString]) -> Result<ExitCode> {
    setup::run(root)?;
    if args.is_empty() {
        // Sooner said than after all tests.
        guest::run(root, &guest::Args { check: true })?;
    }
    let mut all = cargo(root)?;
    all.args(["test", "--workspace", "--no-fail-fast"]).args(args);
    let mut code = run_one(&mut all)?;
    if args.is_empty() && cfg!(target_os = "linux") {
        // Behind features: a Worker has no use for it, and some tests leave protections out.
        let mut local = cargo(root)?;
        local.args(["test", "--package", "koze", "--features", "local,testing", "--test", "local"]);
        code = code.max(run_one(&mut local)?);
    }
    Ok(ExitCode::from(code))
}

fn cargo(root: &Path) -> Result<Command> {
    let mut cargo = process::cargo(root);
    cargo
        .env("PATH", process::path_with(&root.join("tests/node_modules/.bin"))?)
        .env("WRANGLER_SEND_METRICS", "false");
    Ok(cargo)
}

fn run_one(cargo: &mut Command) -> Result<u8> {
    let status = process::status(cargo, "install rustup, which brings cargo")?;
    // A signal leaves no code.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
