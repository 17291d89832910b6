//! cargo on a project in a temporary directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, Once, PoisonError};

use fs_err as fs;
use koze_tests::{Project, Snapshot, root, run};
use serde_json::Value;

use crate::project::{TIMEOUT, Worker};

const TARGET: &str = "wasm32-unknown-unknown";

/// cargo in a project, as its user would run it, without what cargo sets for tests. All projects share one target
/// directory, so that `worker` is compiled once for each target.
pub(crate) fn cargo(project: &Project) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_PROFILE_") {
            command.env_remove(&*name);
        }
    }
    command
        .current_dir(project.dir())
        .env("CARGO_TARGET_DIR", target_dir())
        .env("CARGO_TERM_COLOR", "never")
        // One value for every run: another would compile the dependencies anew.
        .env("RUSTFLAGS", "-D warnings")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        // The same profile for every project, and without what makes a small Worker but a slow build.
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        // The flags above replace those of a project, without which its names may not go.
        .env("CARGO_PROFILE_RELEASE_STRIP", "none");
    command
}

/// `fixtures` in the directory that cargo builds this test into.
fn target_dir() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the running test");
    // <target>/<profile>/deps/<test>
    test.ancestors().nth(3).expect("a test in cargo's target directory").join("fixtures")
}

/// Runs cargo on a project, where a warning is an error: what it prints, or its messages.
pub(crate) fn check(worker: &Worker, args: &[&str]) -> Result<String, String> {
    let project = &worker.project;
    // The versions of this workspace, which are on this machine: no registry is asked.
    fetch();
    project.write("Cargo.lock", fs::read(root().join("Cargo.lock")).expect("the workspace's lock file"));
    let mut command = cargo(project);
    command.args(args).arg("--offline");
    // A fixture depends on the published crate, and this is the one that is meant.
    if !project.read("Cargo.toml").contains("koze = { path") {
        let runtime = root().join("runtime");
        command.arg("--config").arg(format!("patch.crates-io.koze.path={:?}", runtime.to_string_lossy()));
    }
    let output = run(command, TIMEOUT);
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: cargo {}\n{stderr}", worker.name, args.join(" ")))
}

/// Builds the Rust Worker for wasm: the module that cargo leaves. Of several projects that are the same, one is built.
pub(crate) fn wasm(worker: &Worker) -> Result<PathBuf, String> {
    static BUILT: Mutex<BTreeMap<Snapshot, Result<PathBuf, String>>> = Mutex::new(BTreeMap::new());
    let mut sources = worker.project.snapshot();
    sources.retain(|path, _| path == "Cargo.toml" || path.starts_with("src/"));
    // cargo itself builds one at a time. And a test that has failed does not fail the others.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(module) = built.get(&sources) {
        return module.clone();
    }
    // Under a name of its own: the next one may have the same.
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("module-{}.wasm", built.len()));
    let module = build(worker).map(|module| fs::copy(module, &place).map(|_| place).expect("a copy"));
    built.insert(sources, module.clone());
    module
}

fn build(worker: &Worker) -> Result<PathBuf, String> {
    let messages = check(
        worker,
        &["build", "--release", "--target", TARGET, "--message-format=json-render-diagnostics"],
    )?;
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .find(|file| file.extension().is_some_and(|extension| extension == "wasm"))
        .ok_or_else(|| format!("{}: cargo names no .wasm", worker.name))
}

/// Downloads what only the wasm build of a Worker needs, and cargo has not needed so far.
fn fetch() {
    static FETCHED: Once = Once::new();
    FETCHED.call_once(|| {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["fetch", "--locked", "--quiet", "--target", TARGET]).current_dir(root());
        let output = run(command, TIMEOUT);
        assert!(output.status.success(), "cargo fetch: {}", String::from_utf8_lossy(&output.stderr));
    });
}
