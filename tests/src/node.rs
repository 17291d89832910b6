//! The JavaScript tools that `cargo xtask setup` installs.

use std::path::PathBuf;
use std::process::Command;

use fs_err as fs;

use crate::binary::target_dir;
use crate::root;

/// The variables that would connect wrangler to an account.
const ACCOUNT: [&str; 5] = [
    "CLOUDFLARE_ACCOUNT_ID",
    "CLOUDFLARE_API_KEY",
    "CLOUDFLARE_API_TOKEN",
    "CLOUDFLARE_EMAIL",
    "CLOUDFLARE_ENV",
];

/// Returns `tests/node_modules`.
///
/// # Panics
///
/// Panics if it is missing or older than the lock file, so that no test passes without it.
pub fn node_modules() -> PathBuf {
    installed("tests")
}

/// Returns the `node_modules` of the agent frameworks, with the same checks.
///
/// # Panics
///
/// As [`node_modules`].
pub fn framework_modules() -> PathBuf {
    installed("tests/frameworks")
}

/// Returns the `node_modules` of the page of `koze ui`, with the same checks.
///
/// # Panics
///
/// As [`node_modules`].
pub fn ui_modules() -> PathBuf {
    installed("ui")
}

/// Returns `node_modules` of a directory of this repository.
fn installed(directory: &str) -> PathBuf {
    let path = root().join(directory);
    let modules = path.join("node_modules");
    let lock = fs::read(path.join("package-lock.json")).expect("package-lock.json");
    // `cargo xtask setup` stores the lock file that it installed from (`xtask/src/setup/npm.rs`).
    let stamp = fs::read(modules.join(".koze-lock")).unwrap_or_default();
    assert!(
        stamp == lock,
        "{directory}/node_modules is missing, or older than {directory}/package-lock.json: run `cargo xtask setup`"
    );
    modules
}

/// Returns a tool of [`node_modules`], such as `wrangler`, `tsc` or `node` itself, under Node 22: offline as far as its
/// settings allow, with the tests' own home directory and without an account.
pub fn node_command(bin: &str) -> Command {
    let bins = node_modules().join(".bin");
    let home = home();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(bins.clone()).chain(std::env::split_paths(&path));
    let mut command = Command::new(bins.join(bin));
    command
        .env("PATH", std::env::join_paths(path).expect("a PATH without odd names"))
        .env("HOME", &home)
        .env("XDG_CACHE_HOME", home.join(".cache"))
        .env("XDG_CONFIG_HOME", home.join(".config"))
        .env("XDG_DATA_HOME", home.join(".local/share"))
        .env("CI", "true")
        .env("NO_COLOR", "1")
        .env("WRANGLER_HIDE_BANNER", "true")
        .env("WRANGLER_SEND_METRICS", "false")
        .env_remove("FORCE_COLOR")
        .env_remove("NODE_OPTIONS");
    for name in ACCOUNT {
        command.env_remove(name);
    }
    command
}

/// Returns the home directory of the tools. It is shared, because a directory for each process would outlive it.
fn home() -> PathBuf {
    let home = target_dir().0.join("tmp/koze-node-home");
    fs::create_dir_all(&home).expect("a directory in the target directory");
    home
}
