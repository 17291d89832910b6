//! Installs the SDKs in Python that tests run in sandboxes.

use std::path::Path;

use fs_err as fs;

use super::{pip, say};
use crate::Result;

/// The requirements file for pip, with a hash for each file.
const REQUIREMENTS: &str = "xtask/sdks.txt";
/// The directory in which they are installed.
const DIR: &str = "target/tools/sdks";
/// A copy of the requirements that were installed. `local/tests` reads it, too.
const STAMP: &str = "requirements.txt";
/// The Python of sandboxes, which need not be the first one in the `PATH`: the SDKs contain native modules for one version.
const PYTHON: &str = "/usr/bin/python3";

const MISSING: &str = "install the system's Python 3 with pip, and run `cargo xtask setup` again";

/// Installs them if they are missing, or not those of the requirements.
pub(crate) fn install(root: &Path) -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let wanted = fs::read(root.join(REQUIREMENTS))?;
    let stamp = root.join(DIR).join(STAMP);
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        say("the SDKs in Python agree with their requirements");
        return Ok(());
    }
    say(&format!("pip install in {DIR} (SDKs of AWS and OpenAI)"));
    if root.join(DIR).exists() {
        fs::remove_dir_all(root.join(DIR))?;
    }
    pip::install(root, PYTHON, REQUIREMENTS, DIR, MISSING)?;
    fs::write(stamp, wanted)?;
    Ok(())
}
