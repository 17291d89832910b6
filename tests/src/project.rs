//! A project in a temporary directory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fs_err as fs;
use tempfile::TempDir;
use walkdir::{DirEntry, WalkDir};

use crate::fixture::{shared_in, shared_of};
use crate::{Snapshot, diff, koze, node_command, node_modules, process, root};

/// The timeout of koze, far more than any run takes.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Directories of other tools, which snapshots omit.
const SKIPPED: [&str; 2] = ["node_modules", "target"];

/// A temporary directory named `project`, which is deleted on drop.
pub struct Project {
    dir: PathBuf,
    /// Removes the directory.
    _temp: TempDir,
}

/// The note of `koze build` about each project with the SDK. One test checks it; all others ignore it.
pub const NOTE: &str = "note: @cloudflare/sandbox 0.x gets fixes only until 2026-12-31; deployed Workers keep running. \
                        `koze migrate --backend native` moves sandboxes to koze's own guest\n";

/// The result of running koze.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The exit code.
    pub code: i32,
    /// The standard output, with the project's directory replaced by `[PROJECT]`.
    pub stdout: String,
    /// The standard error, with the same replacement and without [`NOTE`].
    pub stderr: String,
}

impl Project {
    /// Creates an empty project.
    #[expect(clippy::new_without_default, reason = "a directory is no default value")]
    pub fn new() -> Self {
        let temp = TempDir::with_prefix("koze-test-").expect("a temporary directory");
        // The canonical path, because koze may print it.
        let dir = fs::canonicalize(temp.path()).expect("its path").join("project");
        fs::create_dir(&dir).expect("a directory in it");
        Self { dir, _temp: temp }
    }

    /// Copies the project of `fixtures/<name>` before its build, byte for byte.
    pub fn before_build(name: &str) -> Self {
        let project = Self::new();
        project.lay(name, "before");
        project
    }

    /// Copies the project of `fixtures/<name>` after its build. The files that are shared between projects are current.
    pub fn after_build(name: &str) -> Self {
        let project = Self::before_build(name);
        project.lay(name, "after");
        for path in shared_of(name) {
            let content =
                shared_in(name, &path).unwrap_or_else(|| panic!("{name}: `{path}` is not a shared file"));
            project.write(path, content);
        }
        project
    }

    /// Copies a side of a fixture over what is there.
    fn lay(&self, fixture: &str, side: &str) {
        for (path, content) in read_all(&root().join("fixtures").join(fixture).join(side)) {
            self.write(path, content);
        }
    }

    /// Returns the project's absolute directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the absolute path of a file in the project.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.join(path)
    }

    /// Returns koze's environment, which places its state next to the project, so that it is deleted with it.
    pub fn state_env(&self) -> (&'static str, PathBuf) {
        ("XDG_STATE_HOME", self.dir.with_file_name("state"))
    }

    /// Writes a file and creates its parent directories.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap_or(&self.dir)).expect("directories for the file");
        fs::write(path, content).expect("the file");
        self
    }

    /// Reads a text file.
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        fs::read_to_string(self.path(path)).expect("a text file")
    }

    /// Links the packages of `tests/node_modules` into the project.
    pub fn link_node_modules(&self) -> &Self {
        fs::os::unix::fs::symlink(node_modules(), self.path("node_modules")).expect("a link");
        self
    }

    /// Returns every file except those in `node_modules` and `target`. The content of a symbolic link is its target.
    pub fn snapshot(&self) -> Snapshot {
        read_all(&self.dir)
    }

    /// Returns the diff from an earlier snapshot to the current files. See [`diff()`](crate::diff()).
    pub fn diff(&self, before: &Snapshot) -> String {
        diff(before, &self.snapshot())
    }

    /// Returns the names of the files that are not in an earlier snapshot, and the diff of the others.
    pub fn changes(&self, before: &Snapshot) -> (Vec<String>, String) {
        let (after, new): (Snapshot, Snapshot) =
            self.snapshot().into_iter().partition(|(path, _)| before.contains_key(path));
        (new.into_keys().collect(), diff(before, &after))
    }

    /// Runs koze in the project, without color and with 100 columns.
    pub fn koze(&self, args: &[&str]) -> Run {
        let mut command = koze();
        command.args(args);
        self.run(command)
    }

    /// Runs `command` like [`Project::koze`], for tests that change its environment.
    pub fn run(&self, mut command: Command) -> Run {
        command.current_dir(&self.dir).env("COLUMNS", "100").env("NO_COLOR", "1");
        let (state, dir) = self.state_env();
        if !command.get_envs().any(|(name, _)| name == state) {
            command.env(state, dir);
        }
        for name in ["CLICOLOR_FORCE", "FORCE_COLOR", "RUST_BACKTRACE", "RUST_LOG"] {
            command.env_remove(name);
        }
        let line = format!("{command:?}");
        let output = process::run(command, TIMEOUT);
        Run {
            code: output
                .status
                .code()
                .unwrap_or_else(|| panic!("{line} was ended by a signal: {}", output.status)),
            stdout: self.redact(&output.stdout),
            stderr: self.redact(&output.stderr).replace(NOTE, ""),
        }
    }

    /// Returns a tool of `tests/node_modules` in the project. See [`node_command`].
    pub fn node(&self, bin: &str) -> Command {
        let mut command = node_command(bin);
        command.current_dir(&self.dir);
        command
    }

    fn redact(&self, output: &[u8]) -> String {
        let text = String::from_utf8_lossy(output);
        text.replace(&*self.dir.to_string_lossy(), "[PROJECT]")
    }
}

/// Returns the files below `dir`, without those that tests ignore.
pub fn read_all(dir: &Path) -> Snapshot {
    let wanted = |entry: &DirEntry| !SKIPPED.iter().any(|name| entry.file_name() == *name);
    WalkDir::new(dir)
        .min_depth(1)
        .into_iter()
        .filter_entry(wanted)
        .map(|entry| entry.expect("a readable directory"))
        .filter(|entry| !entry.file_type().is_dir())
        .map(|entry| {
            let path = entry.path();
            let name = path.strip_prefix(dir).expect("a path below the directory");
            let content = if entry.path_is_symlink() {
                let to = fs::read_link(path).expect("a link");
                format!("symbolic link to {}", to.display()).into_bytes()
            } else {
                fs::read(path).expect("a readable file")
            };
            (name.to_string_lossy().into_owned(), content)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_contains_the_files_that_koze_may_touch() {
        let project = Project::new();
        project.write("src/a.rs", "one\n").write("node_modules/x/index.js", "").write("target/debug/x", "");
        let before = project.snapshot();
        assert_eq!(before.keys().collect::<Vec<_>>(), ["src/a.rs"]);
        project.write("src/a.rs", "two\n");
        assert_eq!(project.diff(&before), "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n-one\n+two\n");
    }

    #[test]
    fn the_directory_is_redacted() {
        let project = Project::new();
        let mut command = Command::new("sh");
        command.args(["-c", "pwd; echo $COLUMNS >&2; exit 2"]);
        let run = project.run(command);
        assert_eq!(run, Run { code: 2, stdout: "[PROJECT]\n".to_owned(), stderr: "100\n".to_owned() });
    }
}
