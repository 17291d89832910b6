//! `cargo xtask test`: every test of the workspace, with what they need.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::{Result, process, setup};

/// Runs `cargo test` on this terminal, so that its closing lines stand as cargo prints them.
pub(crate) fn run(root: &Path, args: &[OsString]) -> Result<ExitCode> {
    setup::run(root)?;
    let mut cargo = process::cargo(root);
    cargo
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(args)
        .env("PATH", process::path_with(&root.join("tests/node_modules/.bin"))?)
        .env("WRANGLER_SEND_METRICS", "false");
    let status = process::status(&mut cargo, "install rustup, which brings cargo")?;
    // A signal leaves no code.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
