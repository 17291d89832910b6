//! `cargo xtask setup`: installs what the tests need and cargo does not provide.

pub(crate) mod debian;
pub(crate) mod npm;
pub(crate) mod pip;
mod sdks;
pub(crate) mod target;

use std::path::Path;

use crate::Result;

/// Installs everything, and prints a line for each step.
pub(crate) fn run(root: &Path) -> Result<()> {
    npm::install(&root.join("tests"))?;
    npm::install_frameworks(&root.join("tests"))?;
    npm::install_ui(&root.join("ui"))?;
    target::install(target::WASM, false)?;
    target::install(target::GUEST, false)?;
    debian::install()?;
    // It needs the system's pip.
    sdks::install(root)
}

/// Prints a line about a step.
fn say(text: &str) {
    eprintln!("setup: {text}");
}
