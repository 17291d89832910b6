//! Runs cargo on a project in a temporary directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, Once, PoisonError};

use fs_err as fs;
use koze_tests::{Project, Snapshot, profiles, root, run};
use serde_json::Value;

use crate::project::{TIMEOUT, Worker};

const TARGET: &str = "wasm32-unknown-unknown";

/// Returns cargo in a project, as its user would run it, without the environment of tests.
///
/// It builds into the target directory of this workspace, where the dependencies that both have are built already.
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
        .env_remove("CARGO_BUILD_TARGET");
    command
}

/// Returns the directory where cargo builds this test.
fn target_dir() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the running test");
    // <target>/<profile>/deps/<test>
    test.ancestors().nth(3).expect("a test in cargo's target directory").to_owned()
}

/// Runs cargo on a project for this machine, and fails if it warns.
///
/// Without flags, its dependencies are up to date. `-D warnings` would be a flag.
pub(crate) fn check(worker: &Worker, args: &[&str]) -> Result<(), String> {
    let (_, messages) = run_cargo(worker, args, like_this_workspace)?;
    if messages.contains("warning: ") {
        return Err(failure(worker, args, &messages));
    }
    Ok(())
}

/// Runs cargo on a project that need not compile, for this machine, and returns its messages.
pub(crate) fn messages(worker: &Worker, args: &[&str]) -> String {
    text(&output(worker, args, like_this_workspace).stdout)
}

/// Sets the profiles that this workspace has for dependencies, with which they are up to date.
fn like_this_workspace(cargo: &mut Command) {
    for (package, profile) in profiles()["profile"]["dev"]["package"].as_table().expect("profiles") {
        for (key, value) in profile.as_table().expect("a profile") {
            let value = value.as_value().expect("a value").to_string();
            cargo.args(["--config", &format!("profile.dev.package.{package:?}.{key}={}", value.trim())]);
        }
    }
}

/// Runs cargo on a project, and returns its output and its messages, or, if it fails, its messages as an error.
fn run_cargo(
    worker: &Worker,
    args: &[&str],
    configure: impl FnOnce(&mut Command),
) -> Result<(String, String), String> {
    let output = output(worker, args, configure);
    let messages = text(&output.stderr);
    if output.status.success() {
        Ok((text(&output.stdout), messages))
    } else {
        Err(failure(worker, args, &messages))
    }
}

fn output(worker: &Worker, args: &[&str], configure: impl FnOnce(&mut Command)) -> Output {
    let project = &worker.project;
    // With the versions of this workspace, which are already on this machine, no registry is contacted.
    fetch();
    project.write("Cargo.lock", fs::read(root().join("Cargo.lock")).expect("the workspace's lock file"));
    let mut command = cargo(project);
    command.args(args).arg("--offline");
    // A fixture depends on the published crate; use this checkout's instead.
    if !project.read("Cargo.toml").contains("koze = { path") {
        let runtime = root().join("runtime");
        command.arg("--config").arg(format!("patch.crates-io.koze.path={:?}", runtime.to_string_lossy()));
    }
    configure(&mut command);
    run(command, TIMEOUT)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn failure(worker: &Worker, args: &[&str], messages: &str) -> String {
    format!("{}: cargo {}\n{messages}", worker.name, args.join(" "))
}

/// Builds the Rust Worker for wasm, and returns cargo's module. Equal projects are built only once.
pub(crate) fn wasm(worker: &Worker) -> Result<PathBuf, String> {
    static BUILT: Mutex<BTreeMap<Snapshot, Result<PathBuf, String>>> = Mutex::new(BTreeMap::new());
    let mut sources = worker.project.snapshot();
    sources.retain(|path, _| path == "Cargo.toml" || path.starts_with("src/"));
    // Cargo itself builds one at a time. A failed test must not fail the others.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(module) = built.get(&sources) {
        return module.clone();
    }
    // For cargo, projects with the same name are one package, which it builds again only if a file is newer.
    let source = fs::File::options().write(true).open(worker.project.path("src/lib.rs")).expect("a source");
    source.set_modified(std::time::SystemTime::now()).expect("its time");
    // Use a unique name, because the next module may have the same one.
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("module-{}.wasm", built.len()));
    let module = build(worker).map(|module| fs::copy(module, &place).map(|_| place).expect("a copy"));
    built.insert(sources, module.clone());
    module
}

fn build(worker: &Worker) -> Result<PathBuf, String> {
    let args = ["build", "--release", "--target", TARGET, "--message-format=json-render-diagnostics"];
    let (messages, _) = run_cargo(worker, &args, |cargo| profile(cargo, &worker.project))?;
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .find(|file| file.extension().is_some_and(|extension| extension == "wasm"))
        .ok_or_else(|| format!("{}: cargo names no .wasm", worker.name))
}

/// Sets the same profile for the dependencies of every project, without the options that make a build slow. The project's own
/// code is not optimized: most of the time would be spent on generic code that the dependencies already contain.
fn profile(cargo: &mut Command, project: &Project) {
    let manifest: Value = toml_edit::de::from_str(&project.read("Cargo.toml")).expect("a manifest");
    let package = manifest["package"]["name"].as_str().expect("a name");
    cargo
        // With a target, flags do not reach build scripts and macros.
        .env("RUSTFLAGS", "-D warnings")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        // `RUSTFLAGS` replaces the flags of the project, without which names must not be stripped.
        .env("CARGO_PROFILE_RELEASE_STRIP", "none")
        .arg("--config")
        .arg(format!("profile.release.package.{package}.opt-level=0"));
}

/// Downloads what only the wasm build of a Worker needs.
fn fetch() {
    static FETCHED: Once = Once::new();
    FETCHED.call_once(|| {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["fetch", "--locked", "--quiet", "--target", TARGET]).current_dir(root());
        let output = run(command, TIMEOUT);
        assert!(output.status.success(), "cargo fetch: {}", String::from_utf8_lossy(&output.stderr));
    });
}
