//! The binary under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::root;

/// The variable for the path of a binary that was already built.
const BUILT: &str = "KOZE_TEST_PROGRAM";

/// Returns a command for this checkout's `koze`, without the environment that cargo sets for tests.
///
/// Cargo tells only the binary's own package its path, and builds it only for that package's tests. So the first call
/// in a process lets cargo build it next to the running test, which keeps it up to date. The variable
/// `KOZE_TEST_PROGRAM` names a binary that was just built.
///
/// # Panics
///
/// Panics if the build fails, after printing cargo's messages.
pub fn koze() -> Command {
    static KOZE: OnceLock<PathBuf> = OnceLock::new();
    let program = || std::env::var_os(BUILT).map_or_else(|| built("koze"), PathBuf::from);
    let mut command = Command::new(KOZE.get_or_init(program));
    without_cargo(&mut command);
    command
}

/// Returns a command for `koze` without sandboxes of namespaces, which is the program of Unix systems other than Linux.
///
/// The first call in a process lets cargo build it, in a target directory of its own because it has other features. The first
/// build takes minutes.
///
/// # Panics
///
/// Panics if the build fails, after printing cargo's messages.
pub fn koze_without_namespaces() -> Command {
    static KOZE: OnceLock<PathBuf> = OnceLock::new();
    let program = || {
        let (target, _) = target_dir();
        let options = ["--package", "koze-cli", "--no-default-features"];
        build("koze", &options, "dev", &target.join("portable"))
    };
    let mut command = Command::new(KOZE.get_or_init(program));
    without_cargo(&mut command);
    command
}

/// Returns a `PATH` with koze and the system's programs.
pub fn path_with_koze() -> String {
    let koze = koze();
    let directory = Path::new(koze.get_program()).parent().expect("the directory of koze");
    format!("{}:/usr/bin:/bin", directory.display())
}

/// Removes the environment that cargo sets for tests from a command. A user's shell does not have it, and a program
/// must not find this workspace through it.
pub(crate) fn without_cargo(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let set_by_cargo = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
        if name == "CARGO" || set_by_cargo.iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(&*name);
        }
    }
}

/// Returns cargo's target directory, and the name of the profile's directory in it.
pub(crate) fn target_dir() -> (PathBuf, String) {
    let test = std::env::current_exe().expect("the path of the running test");
    // <target>/<profile>/deps/<test>; programs are one level higher.
    let dir = test.parent().expect("a directory above the program");
    let profile = if dir.ends_with("deps") { dir.parent().expect("a directory above") } else { dir };
    let target = profile.parent().expect("a target directory above the profile");
    let name = profile.file_name().unwrap_or_default().to_string_lossy();
    (target.to_owned(), name.into_owned())
}

/// Builds a program of this workspace next to the running test and returns its path.
///
/// A selection of packages has other features, and cargo would compile their dependencies again.
pub(crate) fn built(name: &str) -> PathBuf {
    let (target, profile) = target_dir();
    let profile = if profile == "debug" { "dev" } else { &profile };
    build(name, &["--workspace"], profile, &target)
}

fn build(name: &str, options: &[&str], profile: &str, target: &Path) -> PathBuf {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--locked", "--bin", name])
        .args(options)
        .args(["--message-format=json-render-diagnostics", "--profile", profile])
        .arg("--target-dir")
        .arg(target)
        .current_dir(root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "`cargo build --bin {name}` failed");
    executable(name, &String::from_utf8_lossy(&output.stdout)).expect("cargo names the binary it built")
}

/// Returns the path of a binary from cargo's messages.
pub(crate) fn executable(name: &str, messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(Path::new).map(Path::to_owned))
}
