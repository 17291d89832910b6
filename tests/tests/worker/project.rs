//! The projects, each in a temporary directory, ready for wrangler and cargo.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use fs_err as fs;
use koze_tests::{Project, koze, root};
use serde_json::Value;
use tempfile::TempDir;

/// The timeout of each step, for slow machines.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(10);

/// The stub in place of the Rust Worker that worker-build would produce.
pub(crate) const STUB: &str =
    "export default { fetch() { return new Response(\"ok\"); } };\nexport class KozeRequests {}\n";

/// A stand-in for worker-build, which would compile for minutes and download its tools: it is called in the same way,
/// and copies what the test has prepared.
const WORKER_BUILD: &str = "#!/bin/sh
set -eu
test \"$*\" = --release
mkdir -p build
cp -R \"$KOZE_TEST_BUILD\"/. build
";

/// A project with everything built except the Rust Worker.
pub(crate) struct Worker {
    /// The fixture's name, for messages.
    pub(crate) name: String,
    pub(crate) project: Project,
    /// `bin` contains `koze` and `worker-build`; `build` contains what the latter copies.
    tools: TempDir,
}

/// A sandbox in the output of `koze list`.
pub(crate) struct Sandbox {
    pub(crate) kind: String,
    pub(crate) binding: String,
    pub(crate) class: String,
    pub(crate) container: String,
    pub(crate) backend: String,
}

/// Every project.
pub(crate) fn all() -> Vec<Worker> {
    let entries = fs::read_dir(root().join("fixtures")).expect("the fixtures");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("a readable directory"))
        .filter(|entry| entry.path().join("after").is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    [made_native("new"), made("made")].into_iter().chain(names.iter().map(|name| fixture(name))).collect()
}

/// Returns the `after` tree of a fixture.
pub(crate) fn fixture(name: &str) -> Worker {
    Worker::new(name.to_owned(), Project::after_build(name))
}

/// Returns a project created by `koze new`, whose sandbox has koze's guest.
pub(crate) fn made_native(name: &str) -> Worker {
    created(name, &[])
}

/// Returns a project created by `koze new --backend sdk`.
pub(crate) fn made(name: &str) -> Worker {
    created(name, &["--backend", "sdk"])
}

fn created(name: &str, more: &[&str]) -> Worker {
    let around = Project::new();
    let runtime = root().join("runtime");
    let runtime = runtime.to_str().expect("a path in Unicode");
    let run = around.koze(&[&["new", name, "--runtime-path", runtime], more].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let project = Project::new();
    for (path, content) in around.snapshot() {
        project.write(path.strip_prefix(&format!("{name}/")).expect("nothing beside it"), content);
    }
    Worker::new(name.to_owned(), project)
}

impl Worker {
    fn new(name: String, project: Project) -> Self {
        project.link_node_modules();
        let tools = TempDir::with_prefix("koze-tools-").expect("a temporary directory");
        let bin = tools.path().join("bin");
        fs::create_dir(&bin).expect("a directory in it");
        fs::os::unix::fs::symlink(koze().get_program(), bin.join("koze")).expect("a link to koze");
        let worker = Worker { name, project, tools };
        worker.replace_tool("worker-build", WORKER_BUILD);
        fs::create_dir(worker.build_dir()).expect("a directory in it");
        fs::write(worker.build_dir().join("index.js"), STUB).expect("a stub");
        worker
    }

    /// Replaces a tool that wrangler runs by a script.
    pub(crate) fn replace_tool(&self, name: &str, script: &str) {
        let path = self.tools.path().join("bin").join(name);
        // `koze` is a link, so do not write through it.
        let _ = fs::remove_file(&path);
        fs::write(&path, script).expect("a script");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(path, executable).expect("its permissions");
    }

    /// Returns the directory from which the stand-in for worker-build copies. It contains a stub unless a test replaces
    /// it.
    pub(crate) fn build_dir(&self) -> PathBuf {
        self.tools.path().join("build")
    }

    /// Returns a tool of `tests/node_modules` in the project, with `koze` and `worker-build` on its `PATH`.
    pub(crate) fn tool(&self, name: &str) -> Command {
        let mut command = self.project.node(name);
        let path = path_of(&command);
        let bin = self.tools.path().join("bin");
        let path = std::iter::once(bin).chain(std::env::split_paths(&path));
        command
            .env("PATH", std::env::join_paths(path).expect("a PATH without odd names"))
            .env("KOZE_TEST_BUILD", self.build_dir());
        command
    }

    /// Returns the fixture before the first build, if it had a configuration.
    pub(crate) fn before(&self) -> Option<Project> {
        if !root().join("fixtures").join(&self.name).join("before").is_dir() {
            return None;
        }
        let project = Project::before_build(&self.name);
        ["wrangler.json", "wrangler.jsonc", "wrangler.toml"]
            .iter()
            .any(|config| project.path(config).exists())
            .then_some(project)
    }

    /// Returns koze's list of sandboxes.
    pub(crate) fn sandboxes(&self) -> Vec<Sandbox> {
        let run = self.project.koze(&["list", "--format", "json"]);
        assert_eq!(run.code, 0, "{}: {run:?}", self.name);
        let document: Value = serde_json::from_str(&run.stdout).expect("a JSON document");
        let list = document["sandboxes"].as_array().expect("a list of sandboxes");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        list.iter()
            .map(|sandbox| Sandbox {
                kind: text(&sandbox["kind"]),
                binding: text(&sandbox["binding"]),
                class: text(&sandbox["class"]),
                container: text(&sandbox["container"]),
                backend: text(&sandbox["backend"]),
            })
            .collect()
    }
}

/// Returns the `PATH` of a command.
fn path_of(command: &Command) -> OsString {
    let given = command.get_envs().find(|(name, _)| *name == "PATH");
    given.and_then(|(_, path)| path).map(OsStr::to_owned).unwrap_or_default()
}
