//! The JavaScript tools: Node 22, wrangler, tsc, the sandbox SDK and MCP clients, from `tests/package-lock.json`.

use std::path::Path;
use std::process::Command;

use fs_err as fs;

use super::say;
use crate::{Result, process};

/// Holds the lock file that `node_modules` was installed from. npm removes it with the directory, so it
/// cannot outlive what it speaks for. `koze-tests` reads it too (`tests/src/node.rs`).
const STAMP: &str = "node_modules/.koze-lock";

/// wrangler 4.164 refuses anything older.
const NODE: &str = "v22.";

const MISSING: &str = "install Node 20 or newer, which brings npm, and run `cargo xtask setup` again";

/// Brings `tests/node_modules` in step with the lock file.
pub(crate) fn install(tests: &Path) -> Result<()> {
    let lock_file = tests.join("package-lock.json");
    // A second `cargo xtask` waits here: `npm ci` removes the directory before it fills it again.
    let guard =
        std::fs::File::open(&lock_file).map_err(|error| format!("{}: {error}", lock_file.display()))?;
    guard.lock()?;

    let lock = fs::read(&lock_file)?;
    if fs::read(tests.join(STAMP)).is_ok_and(|stamp| stamp == lock) {
        say("tests/node_modules agrees with tests/package-lock.json");
        return Ok(());
    }
    let node = process::stdout(Command::new("node").arg("--version"), MISSING)?;
    say(&format!(
        "npm ci in tests/ (with Node {node}; Node 22, wrangler, tsc, the sandbox SDK, MCP clients)"
    ));
    // Its warnings are about the older Node of the machine, which installs but never runs these packages.
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(tests);
    let status = process::status(&mut npm, MISSING)?;
    if !status.success() {
        return Err(format!(
            "`{}` failed in tests/ ({status}); npm says why above. Once that is mended, run `cargo xtask setup` again",
            process::line(&npm)
        )
        .into());
    }
    check_node(tests)?;
    fs::write(tests.join(STAMP), lock)?;
    Ok(())
}

/// The npm package `node` fetches its binary in an install script, and npm can be told to run none.
fn check_node(tests: &Path) -> Result<()> {
    let found = process::stdout(
        Command::new(tests.join("node_modules/.bin/node")).arg("--version"),
        "npm did not run the install script of the package `node`. Allow it \
         (`npm config delete ignore-scripts`) and run `cargo xtask setup` again",
    )?;
    if found.starts_with(NODE) {
        return Ok(());
    }
    Err(format!(
        "tests/node_modules/.bin/node is {found}, and the tests need {NODE}x: remove tests/node_modules and run \
         `cargo xtask setup` again"
    )
    .into())
}
