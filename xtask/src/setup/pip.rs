//! Installs programs from the Python Package Index below `target`.

use std::path::Path;
use std::process::Command;

use crate::{Result, process};

/// The first Python in the `PATH`.
pub(crate) const PYTHON: &str = "python3";

/// Installs the files whose hashes a requirements file lists, for a Python. Both paths are relative to the workspace. `missing` says
/// what to do without pip.
pub(crate) fn install(root: &Path, python: &str, requirements: &str, dir: &str, missing: &str) -> Result<()> {
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--root-user-action=ignore",
        "--require-hashes",
        "--no-deps",
    ])
    .args(["--only-binary", ":all:", "--upgrade", "--target", dir, "--requirement", requirements])
    .current_dir(root);
    if process::status(&mut pip, missing)?.success() {
        return Ok(());
    }
    Err(format!("`{}` failed; pip says why above. Or: {missing}", process::line(&pip)).into())
}
