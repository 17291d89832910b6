//! `cargo xtask setup`: what the tests need and cargo does not bring.

mod containers;
pub(crate) mod npm;
pub(crate) mod target;

use std::path::Path;

use crate::{Result, guest};

/// Installs everything, or says in one line each that it is there.
pub(crate) fn run(root: &Path) -> Result<()> {
    npm::install(&root.join("tests"))?;
    target::install(target::WASM, false)?;
    target::install(guest::TARGET, false)?;
    containers::install()
}

/// One line about one step.
fn say(text: &str) {
    eprintln!("setup: {text}");
}
