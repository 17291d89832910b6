//! Compiles the generated code of a project for this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use fs_err as fs;

use crate::binary::{executable, target_dir, without_cargo};
use crate::{koze, profiles, root, run};

/// The program around the generated code.
const MAIN: &str = include_str!("generated/main.rs");

/// The build timeout. Cargo may have to compile every dependency.
const TIMEOUT: Duration = Duration::from_mins(10);

/// The files of the project, by their paths in the fixture.
const FILES: [&str; 3] = ["package.json", "src/server/python.sandbox.rs", "src/server/shell.sandbox.rs"];

/// Builds a program that calls the tools of a project with the sandboxes `shell`, the default, and `python`, through
/// the code that `koze build` generates for it, compiled natively. Its arguments are `memory`, or `local` and a state
/// directory.
///
/// It reads one call per line, `{"session","tool","input"}`, and prints `{"content","isError"}` for each. Calls run
/// concurrently; the answer to a call with an `id` has the same `id`.
///
/// The first call in a process builds it in its own directory below cargo's, with the dependencies of this workspace.
///
/// # Panics
///
/// Panics with the build's messages if the build fails.
pub fn generated_program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let (target, profile) = target_dir();
    let around = target.join("generated");
    let dir = around.join("project");
    fs::create_dir_all(dir.join("src/server")).expect("a directory below cargo's");
    // Several test programs may start this at the same time. koze itself locks the project's directory.
    let turn = fs::File::open(&around).expect("the directory").into_file();
    turn.lock().expect("a turn");
    write(&dir);
    let mut build = koze();
    build.args(["build", "--project"]).arg(&dir);
    done(build);
    compile(&dir, &target, &profile)
}

/// Runs a command that must succeed, and returns its output.
fn done(command: Command) -> String {
    let shown = format!("{command:?}");
    let output = run(command, TIMEOUT);
    assert!(output.status.success(), "{shown}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Writes the files of the project that differ, because cargo compares modification times.
fn write(dir: &Path) {
    let fixture = root().join("fixtures/commented/before");
    let text = |path: &str| fs::read_to_string(fixture.join(path)).expect("a text of the fixture");
    let mut files: Vec<(&str, String)> = FILES.iter().map(|path| (*path, text(path))).collect();
    files[2].1 = files[2].1.replace("#[sandbox]", "#[sandbox(default, tools = [\"agent\", \"thread\"])]");
    let manifest = format!(
        "[package]\nname = \"generated\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n\
         [workspace]\n\n{}\n[dependencies]\n\
         koze = {{ path = {:?} }}\nkoze-local = {{ path = {:?} }}\nserde_json = \"1\"\n\
         tokio = {{ version = \"1\", features = [\"rt\", \"sync\"] }}\n",
        profiles(),
        root().join("runtime").to_string_lossy(),
        root().join("local").to_string_lossy()
    );
    // With the versions of this workspace, which are already on this machine, no registry is contacted.
    let lock = fs::read_to_string(root().join("Cargo.lock")).expect("the workspace's lock file");
    files.extend([("Cargo.toml", manifest), ("Cargo.lock", lock), ("src/main.rs", MAIN.to_owned())]);
    for (path, text) in files {
        let path = dir.join(path);
        if !fs::read_to_string(&path).is_ok_and(|there| there == text) {
            fs::write(path, text).expect("a file of the project");
        }
    }
}

fn compile(dir: &Path, target: &Path, profile: &str) -> PathBuf {
    let profile = if profile == "debug" { "dev" } else { profile };
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    without_cargo(&mut cargo);
    cargo
        .args(["build", "--quiet", "--offline", "--message-format=json-render-diagnostics"])
        .args(["--profile", profile])
        .arg("--target-dir")
        .arg(target)
        .current_dir(dir);
    executable("generated", &done(cargo)).expect("cargo names the program")
}
