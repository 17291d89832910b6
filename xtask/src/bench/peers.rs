//! The commands to compare with: those that a user of the same project runs anyway.

use std::path::Path;
use std::process::Command;

use super::project::Project;
use crate::{Result, process};

/// The cheapest query of a package: no resolution, no network.
pub(super) const CARGO_METADATA: &str = "cargo metadata --no-deps";

/// wrangler's own command that reads the blocks koze writes.
pub(super) const WRANGLER_TYPES: &str = "wrangler types";

/// Returns [`CARGO_METADATA`] with the cargo binary itself, bypassing rustup's proxy.
pub(super) fn cargo_metadata(root: &Path, project: &Project) -> Command {
    let mut cargo = process::cargo(root);
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(project.dir());
    cargo
}

/// Returns why [`WRANGLER_TYPES`] cannot run, if it cannot.
pub(super) fn wrangler_ready(root: &Path, project: &Project) -> std::result::Result<(), &'static str> {
    if !bin(root).join("wrangler").exists() {
        return Err("tests/node_modules is missing; `cargo xtask setup` installs it");
    }
    if !project.dir().join("wrangler.jsonc").exists() {
        return Err("koze left no wrangler.jsonc in the project");
    }
    Ok(())
}

/// Returns [`WRANGLER_TYPES`] with the Node of the tests and without network access.
pub(super) fn wrangler_types(root: &Path, project: &Project) -> Result<Command> {
    let mut wrangler = Command::new(bin(root).join("wrangler"));
    wrangler
        .arg("types")
        .current_dir(project.dir())
        .env("PATH", process::path_with(&bin(root))?)
        .env("CI", "true")
        .env("WRANGLER_HIDE_BANNER", "true")
        .env("WRANGLER_SEND_METRICS", "false");
    Ok(wrangler)
}

fn bin(root: &Path) -> std::path::PathBuf {
    root.join("tests/node_modules/.bin")
}
