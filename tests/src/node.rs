//! The JavaScript tools that `cargo xtask setup` installs.

use std::path::PathBuf;
use std::process::Command;

use fs_err as fs;

use crate::binary::target_dir;
use crate::root;

/// What would lead wrangler from a test to somebody's account.
const ACCOUNT: [&str; 5] = [
    "CLOUDFLARE_ACCOUNT_ID",
    "CLOUDFLARE_API_KEY",
    "CLOUDFLARE_API_TOKEN",
    "CLOUDFLARE_EMAIL",
    "CLOUDFLARE_ENV",
];

/// `tests/node_modules`.
///
/// # Panics
///
/// If it is missing or older than the lock file: a test that needs it never passes without it.
pub fn node_modules() -> PathBuf {
    let tests = root().join("tests");
    let modules = tests.join("node_modules");
    let lock = fs::read(tests.join("package-lock.json")).expect("tests/package-lock.json");
    // `cargo xtask setup` leaves the lock file it installed from (`xtask/src/setup/npm.rs`).
    let stamp = fs::read(modules.join(".koze-lock")).unwrap_or_default();
    assert!(
        stamp == lock,
        "tests/node_modules is missing, or older than tests/package-lock.json: run `cargo xtask setup`"
    );
    modules
}

/// A tool of [`node_modules`], e.g. `wrangler`, `tsc` or `node` itself, under Node 22: offline as far as its
/// settings go, with a home directory of the tests' own and without anybody's account.
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

/// Where the tools keep their settings and logs. One directory in cargo's for temporary files, for a
/// directory for each process would outlive it.
fn home() -> PathBuf {
    let home = target_dir().0.join("tmp/koze-node-home");
    fs::create_dir_all(&home).expect("a directory in the target directory");
    home
}
