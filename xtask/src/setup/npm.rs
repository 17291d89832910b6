//! Installs the JavaScript tools: Node 22, wrangler, tsc, the sandbox SDK and MCP clients, from
//! `tests/package-lock.json`. Agent frameworks, and engines that a benchmark compares with, have lock files of their own.

use std::path::Path;
use std::process::Command;

use fs_err as fs;

use super::say;
use crate::{Result, process};

/// A copy of the lock file that `node_modules` was installed from. npm deletes it together with the directory, so it
/// cannot become stale. `koze-tests` reads it, too (`tests/src/node.rs`).
const STAMP: &str = "node_modules/.koze-lock";

/// wrangler 4.164 rejects older versions.
const NODE: &str = "v22.";

const MISSING: &str = "install Node 20 or newer, which brings npm, and run `cargo xtask setup` again";

/// Updates `tests/node_modules` to match the lock file.
pub(crate) fn install(tests: &Path) -> Result<()> {
    let content = "Node 22, wrangler, tsc, the sandbox SDK, MCP clients";
    install_in(tests, content, &[], || check_node(tests))
}

/// Updates `node_modules` of the agent frameworks in the quick starts to match their lock file.
pub(crate) fn install_frameworks(tests: &Path) -> Result<()> {
    install_in(&tests.join("frameworks"), "agent frameworks", &["--ignore-scripts"], || Ok(()))
}

/// Updates `node_modules` of the page of `koze ui` to match its lock file: what builds it, and the driver of its tests.
pub(crate) fn install_ui(ui: &Path) -> Result<()> {
    install_in(ui, "the page of `koze ui`", &["--ignore-scripts"], || Ok(()))
}

/// Updates `node_modules` of a benchmark to match its lock file, without the install scripts of the packages.
pub(crate) fn install_peers(bench: &Path) -> Result<()> {
    install_in(bench, "to compare with", &["--ignore-scripts"], || Ok(()))
}

/// Returns a tool that [`install`] has installed. It runs with Node 22.
pub(crate) fn tool(root: &Path, name: &str) -> Result<Command> {
    let bin = root.join("tests/node_modules/.bin");
    let mut tool = Command::new(bin.join(name));
    tool.env("PATH", process::path_with(&bin)?);
    Ok(tool)
}

fn install_in(
    directory: &Path,
    content: &str,
    options: &[&str],
    check: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let lock_file = directory.join("package-lock.json");
    // Wait for another `cargo xtask`: `npm ci` deletes the directory before it fills it again.
    let guard =
        std::fs::File::open(&lock_file).map_err(|error| format!("{}: {error}", lock_file.display()))?;
    guard.lock()?;

    let shown = directory.display();
    let lock = fs::read(&lock_file)?;
    if fs::read(directory.join(STAMP)).is_ok_and(|stamp| stamp == lock) {
        say(&format!("{shown}/node_modules agrees with its package-lock.json"));
        return Ok(());
    }
    let node = process::stdout(Command::new("node").arg("--version"), MISSING)?;
    say(&format!("npm ci in {shown} (with Node {node}; {content})"));
    // npm warns about the machine's older Node, which installs these packages but never runs them.
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]).args(options).current_dir(directory);
    let status = process::status(&mut npm, MISSING)?;
    if !status.success() {
        return Err(format!(
            "`{}` failed in {shown} ({status}); npm says why above. Once that is mended, run `cargo xtask setup` again",
            process::line(&npm)
        )
        .into());
    }
    check()?;
    fs::write(directory.join(STAMP), lock)?;
    Ok(())
}

/// Checks for Node: the npm package `node` downloads it in an install script, and npm may be configured not to run
/// those.
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
