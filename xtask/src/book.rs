//! `cargo xtask book`: builds the pages of `docs` as a book with mdBook. `tests/tests/published/pages.rs` checks their
//! links.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::{Result, process};

const VERSION: &str = "0.5.4";
/// The directory in which mdBook is installed if it is not on the `PATH`.
const DIR: &str = "target/tools/mdbook";

const MISSING: &str = "install rustup, which brings cargo";

/// Builds the book in `target/book`.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let mut mdbook = Command::new(program(root)?);
    let output = mdbook.arg("build").current_dir(root).output()?;
    let messages = String::from_utf8_lossy(&output.stderr);
    eprint!("{messages}");
    // mdBook succeeds despite warnings, for example about pages that it cannot parse.
    if !output.status.success() || messages.contains("WARN") || messages.contains("ERROR") {
        return Err("mdBook found mistakes in `docs`, which it names above".into());
    }
    eprintln!("book: open target/book/index.html");
    Ok(ExitCode::SUCCESS)
}

/// Returns mdBook in the version that builds the book. It is built from crates.io once, without the server and the
/// search, which the book does not need, and without optimization: the book is small.
fn program(root: &Path) -> Result<PathBuf> {
    let name = PathBuf::from("mdbook");
    let installed = root.join(DIR).join("bin").join(&name);
    if let Some(found) = [&name, &installed].into_iter().find(|program| is_right(program)) {
        return Ok(found.clone());
    }
    let mut cargo = process::cargo(root);
    cargo.args([
        "install",
        "mdbook",
        "--locked",
        "--debug",
        "--no-default-features",
        "--version",
        VERSION,
        "--root",
        DIR,
    ]);
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
    if !process::status(&mut cargo, MISSING)?.success() {
        return Err(format!("`{}` failed; cargo says why above", process::line(&cargo)).into());
    }
    Ok(installed)
}

fn is_right(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == format!("mdbook v{VERSION}"))
}
