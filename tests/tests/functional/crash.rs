//! What a crash, a full disk and other runs at the same time leave behind.
//!
//! `KOZE_FAULT` ends the program, or fails an operation, at a numbered point before each change of the disk (CONTRIBUTING.md).
//! The tests count up until a run passes untouched: a new operation is covered without a word here.

use std::process::{Command, Output};
use std::time::Duration;

use koze_tests::{Project, Snapshot, koze, root, run};

use crate::common::{BY_HAND, SHELL, built, package, plain, sandbox, shell};

/// More points than any run has: counting up ends.
const MOST: usize = 200;

/// A run that is to be interrupted.
struct Scenario {
    /// The files it finds.
    before: Snapshot,
    args: Vec<String>,
    /// The files that it leaves when nothing interrupts it.
    after: Snapshot,
}

impl Scenario {
    fn new(project: &Project, args: &[&str]) -> Self {
        let before = project.snapshot();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut scenario = Scenario { before, args, after: Snapshot::new() };
        let project = scenario.project();
        let done = scenario.run(&project, None);
        assert!(done.status.success(), "{done:?}");
        scenario.after = project.snapshot();
        assert_ne!(scenario.after, scenario.before);
        scenario
    }

    /// The project as the run finds it.
    fn project(&self) -> Project {
        let project = Project::new();
        for (path, content) in &self.before {
            project.write(path, content);
        }
        project
    }

    fn run(&self, project: &Project, fault: Option<String>) -> Output {
        let mut command = command(project);
        command.args(&self.args);
        if let Some(fault) = fault {
            command.env("KOZE_FAULT", fault);
        }
        run(command, Duration::from_mins(1))
    }

    /// Projects whose run met this fault, at each point once.
    fn faults(&self, kind: &str) -> impl Iterator<Item = (Project, Output)> {
        (1..MOST).map_while(move |point| {
            let project = self.project();
            let output = self.run(&project, Some(format!("{kind}@{point}")));
            if said(&output).starts_with(&format!("fault {kind}@{point}: ")) {
                return Some((project, output));
            }
            assert!(point > 5 && output.status.success(), "{output:?}");
            assert_eq!(project.diff(&self.after), "", "a run without a fault");
            None
        })
    }

    /// Every file is as it was or as it was to be, whole.
    fn assert_old_or_new(&self, now: &Snapshot, at: &str) {
        for path in self.before.keys().chain(self.after.keys()).chain(now.keys()) {
            let content = now.get(path);
            let whole = content == self.before.get(path) || content == self.after.get(path);
            assert!(whole || is_temporary(path), "{path} is neither old nor new after {at}");
        }
    }

    /// The next build completes what was begun, or the same command does where nothing was.
    fn assert_completes(&self, project: &Project, at: &str) {
        let now = without_temporary(project.snapshot());
        let mut run = project.koze(&["build"]);
        if self.args[0] != "build" && now == self.before && run.code != 0 {
            // The build rightly asks what is to become of the sandbox: nobody has said so yet.
            let again = self.run(project, None);
            assert!(again.status.success(), "{at}: {again:?}");
            run = project.koze(&["build"]);
        }
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "after {at}: {}", run.stdout);
        assert_eq!(project.diff(&self.after), "", "the next build after {at}");
    }

    fn survives_kills(&self) {
        for (project, output) in self.faults("kill") {
            let at = said(&output);
            assert_eq!(output.status.code(), None, "{at}");
            self.assert_old_or_new(&project.snapshot(), &at);
            self.assert_completes(&project, &at);
        }
    }

    fn survives_errors(&self) {
        for (project, output) in self.faults("error") {
            let at = said(&output);
            let now = project.snapshot();
            self.assert_old_or_new(&now, &at);
            let written = changed(&self.before, &now);
            if output.status.success() {
                // Only that the renames are on the disk cannot be promised then.
                assert!(at.contains(": sync "), "{at}");
                assert_eq!(project.diff(&self.after), "", "{at}");
                continue;
            }
            assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{at}");
            assert!(at.contains("No space left on device (os error 28)"), "{at}");
            if written.is_empty() {
                assert!(at.contains("nothing was written"), "{at}");
                assert_eq!(project.diff(&self.before), "", "not even a temporary file is left after {at}");
            } else {
                assert_eq!(named(&at), written, "{at}");
            }
            self.assert_completes(&project, &at);
        }
    }
}

fn command(project: &Project) -> Command {
    let mut command = koze();
    command.current_dir(project.dir()).env("NO_COLOR", "1").env("COLUMNS", "100");
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether koze makes a file of this name only for the time of a run.
fn is_temporary(path: &str) -> bool {
    path.ends_with(".koze-tmp") || path.ends_with(".koze-journal") || path.contains(".koze-tmp/")
}

fn without_temporary(mut files: Snapshot) -> Snapshot {
    files.retain(|path, _| !is_temporary(path));
    files
}

/// The files that differ, sorted.
fn changed(before: &Snapshot, now: &Snapshot) -> Vec<String> {
    let now = without_temporary(now.clone());
    let mut paths: Vec<String> = before.keys().chain(now.keys()).cloned().collect();
    paths.sort();
    paths.dedup();
    paths.retain(|path| before.get(path) != now.get(path));
    paths
}

/// The files that the help of K057 names, sorted.
fn named(message: &str) -> Vec<String> {
    let help = message.lines().find(|line| line.contains(" were written before")).expect("what was written");
    let mut files: Vec<String> = help.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    files.sort();
    files
}

fn cold() -> Scenario {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND);
    plain(&project, "src/server/python.sandbox.rs", "PythonSandbox");
    Scenario::new(&project, &["build"])
}

/// A class with another name, an attribute with another value, and one that is taken back.
fn changed_project() -> Project {
    let project = shell("#[sandbox(max_instances = 3, instance_type = \"basic\")]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND);
    sandbox(&project, "src/server/python.sandbox.rs", "#[sandbox(name = \"py\")]\npub struct PythonSandbox;");
    built(&project);
    sandbox(&project, SHELL, "#[sandbox(instance_type = \"standard-1\")]\npub struct BashSandbox;");
    project
}

fn incremental() -> Scenario {
    Scenario::new(&changed_project(), &["build"])
}

fn removal(storage: &str) -> Scenario {
    let project = changed_project();
    built(&project);
    fs_err::remove_file(project.path("src/server/python.sandbox.rs")).expect("it was there");
    Scenario::new(&project, &["remove", "python", storage])
}

#[test]
fn a_kill_in_a_cold_build() {
    cold().survives_kills();
}

#[test]
fn a_kill_in_a_later_build() {
    incremental().survives_kills();
}

#[test]
fn a_kill_in_a_removal_that_deletes_storage() {
    removal("--delete-storage").survives_kills();
}

#[test]
fn a_kill_in_a_removal_that_keeps_storage() {
    removal("--keep-storage").survives_kills();
}

#[test]
fn a_full_disk_in_a_cold_build() {
    cold().survives_errors();
}

#[test]
fn a_full_disk_in_a_later_build() {
    incremental().survives_errors();
}

#[test]
fn a_full_disk_in_a_removal() {
    removal("--delete-storage").survives_errors();
}
