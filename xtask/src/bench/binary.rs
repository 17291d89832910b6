//! Builds the binary to measure.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::{Result, process};

/// Builds a release of `koze` and returns its path.
pub(super) fn build(root: &Path) -> Result<PathBuf> {
    let mut cargo = process::cargo(root);
    cargo
        .args(["build", "--release", "--package", "koze-cli", "--bin", "koze"])
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null());
    let messages = process::stdout(&mut cargo, "install rustup, which brings cargo")?;
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == "koze")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| "cargo built `koze` and named no executable; pass one with `--koze`".into())
}
