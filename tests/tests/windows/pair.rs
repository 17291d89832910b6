//! Two equal projects: one for the program of this machine, one for that of Windows.

use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use koze_tests::{NOTE, Project, Run, Snapshot};

use crate::wine::Wine;

/// The timeout of koze, far more than any run takes.
const TIMEOUT: Duration = Duration::from_mins(2);
/// How often wine may try to start koze.
const STARTS: usize = 5;
/// How long it has to recover before the next one.
const PAUSE: Duration = Duration::from_millis(200);

/// A project for each program. Its directory has a space in its name.
pub(crate) struct Pair {
    pub(crate) here: Project,
    pub(crate) windows: Project,
}

/// The package in each project.
pub(crate) const DIR: &str = "my agent";

impl Pair {
    /// Creates a package with a sandbox over the SDK for each program.
    pub(crate) fn new() -> Pair {
        let pair = Pair { here: Project::new(), windows: Project::new() };
        let run = pair.run_in("", &["new", DIR, "--name", "agent", "--backend", "sdk"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        pair
    }

    /// Runs koze with both programs in the package. The results and the files must be the same.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.run_in(DIR, args)
    }

    /// Runs koze as [`Pair::run`] and returns what it printed. It must succeed.
    pub(crate) fn succeed(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        run.stdout
    }

    /// Runs koze as [`Pair::run`] in a directory of the project.
    pub(crate) fn run_in(&self, dir: &str, args: &[&str]) -> Run {
        let here = run(koze_tests::koze(), &self.here, dir, args);
        let windows = run(Wine::koze(), &self.windows, dir, args);
        assert_eq!(here, windows, "{args:?} on this machine and on Windows");
        self.agree();
        here
    }

    /// Compares all files.
    pub(crate) fn agree(&self) {
        let diff = koze_tests::diff(&files(&self.here), &files(&self.windows));
        assert!(diff.is_empty(), "the files of this machine and those of Windows differ:\n{diff}");
    }

    /// Changes a file in both packages.
    pub(crate) fn change(&self, file: &str, change: impl Fn(&str) -> String) {
        for project in [&self.here, &self.windows] {
            let file = format!("{DIR}/{file}");
            let text = change(&project.read(&file));
            project.write(file, text);
        }
    }
}

/// Runs koze in a directory of a project.
pub(crate) fn run(mut command: Command, project: &Project, dir: &str, args: &[&str]) -> Run {
    command.args(args).current_dir(project.path(dir)).env("COLUMNS", "100").env("NO_COLOR", "1");
    let output = started(command);
    let text = |bytes: &[u8]| {
        let text =
            neutral(&String::from_utf8_lossy(bytes)).replace(&*project.dir().to_string_lossy(), "[PROJECT]");
        without_trial(&without_tokens(&text.replace(NOTE, "")))
    };
    Run {
        code: output.status.code().expect("an exit code"),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}

/// Runs a program, again if it fails without an error, as koze never does: wine could not start it, or lost its exit code.
fn started(mut command: Command) -> Output {
    for _ in 1..STARTS {
        let output = koze_tests::run(&mut command, TIMEOUT);
        // For machines, errors are on standard output.
        let has_error = String::from_utf8_lossy(&output.stdout).contains("error")
            || !String::from_utf8_lossy(&output.stderr).replace(NOTE, "").is_empty();
        if output.status.success() || has_error {
            return output;
        }
        eprintln!("{command:?} failed without an error, so it is started again: {output:?}");
        thread::sleep(PAUSE);
    }
    koze_tests::run(&mut command, TIMEOUT)
}

/// Removes the lines of GitHub's workflow commands that have random tokens.
fn without_tokens(text: &str) -> String {
    let random = |line: &&str| {
        let token = line.trim_end().trim_matches(':');
        line.starts_with("::stop-commands::") || (token.len() == 36 && token.split('-').count() == 5)
    };
    text.split_inclusive('\n').filter(|line| !random(line)).collect()
}

/// Removes the line of `koze new` with a command that only works on Linux.
fn without_trial(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("try:  ")).collect()
}

/// Replaces Windows's form of this machine's paths. Drive `Z:` is the root directory; JSON doubles backslashes.
fn neutral(text: &str) -> String {
    text.replace("\\\\", "/").replace('\\', "/").replace("Z:/", "/")
}

/// Returns all files of a project. They have no backslash that the other system's files do not have, and the path of the
/// runtime differs only by its drive.
fn files(project: &Project) -> Snapshot {
    let snapshot = project.snapshot();
    let without_drive = |bytes: Vec<u8>| match String::from_utf8(bytes) {
        Ok(text) => text.replace("Z:/", "/").into_bytes(),
        Err(error) => error.into_bytes(),
    };
    snapshot.into_iter().map(|(path, bytes)| (path, without_drive(bytes))).collect()
}
