//! Crashes and full disks.
//!
//! `KOZE_FAULT` kills the program, or fails an operation, at a numbered point before each change of the disk
//! (CONTRIBUTING.md). The tests count up until a run is not affected, so new operations are covered automatically.

use std::process::{Command, Output};
use std::time::Duration;

use insta::assert_snapshot;
use koze_tests::{Project, Snapshot, koze, root, run};

use crate::common::{BY_HAND, SHELL, built, package, plain, sandbox, shell};

/// More points than any run has, so that counting ends.
const MAX_POINTS: usize = 200;

/// A run to interrupt.
pub(crate) struct Scenario {
    /// The files before the run.
    before: Snapshot,
    pub(crate) args: Vec<String>,
    /// The files after an uninterrupted run.
    pub(crate) after: Snapshot,
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

    /// Creates the project in its state before the run.
    pub(crate) fn project(&self) -> Project {
        project_of(&self.before)
    }

    fn run(&self, project: &Project, fault: Option<String>) -> Output {
        let mut command = command(project);
        command.args(&self.args);
        if let Some(fault) = fault {
            command.env("KOZE_FAULT", fault);
        }
        run(command, Duration::from_mins(1))
    }

    /// Runs with this fault at each point once, and returns the projects and outputs.
    fn faults(&self, kind: &str) -> impl Iterator<Item = (Project, Output)> {
        (1..MAX_POINTS).map_while(move |point| {
            let project = self.project();
            let output = self.run(&project, Some(format!("{kind}@{point}")));
            if printed(&output).starts_with(&format!("fault {kind}@{point}: ")) {
                return Some((project, output));
            }
            assert!(point > 5 && output.status.success(), "{output:?}");
            assert_eq!(project.diff(&self.after), "", "a run without a fault");
            None
        })
    }

    /// Checks that every file has its complete old or new content.
    fn assert_old_or_new(&self, now: &Snapshot, at: &str) {
        for path in self.before.keys().chain(self.after.keys()).chain(now.keys()) {
            let content = now.get(path);
            let whole = content == self.before.get(path) || content == self.after.get(path);
            assert!(whole || is_temporary(path), "{path} is neither old nor new after {at}");
        }
    }

    /// Checks that the next build finishes the run, or that repeating the command does if nothing was begun.
    fn assert_completes(&self, project: &Project, at: &str) {
        let now = without_temporary(project.snapshot());
        let mut run = project.koze(&["build"]);
        // A build cannot repeat a removal that was not begun: it asks about the storage.
        if self.args[0] != "build" && now == self.before && project.snapshot() != self.after {
            let again = self.run(project, None);
            assert!(again.status.success(), "{at}: {again:?}");
            run = project.koze(&["build"]);
        }
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "after {at}: {}", run.stdout);
        assert_eq!(project.diff(&self.after), "", "the next build after {at}");
    }

    /// Checks that the command is refused once it was done, and changes nothing.
    fn repeats_change_nothing(&self) {
        let project = project_of(&self.after);
        let again = self.run(&project, None);
        assert_eq!(again.status.code(), Some(1), "{again:?}");
        assert_eq!(project.diff(&self.after), "", "the command was repeated");
    }

    fn survives_kills(&self) {
        for (project, output) in self.faults("kill") {
            let at = printed(&output);
            assert_eq!(output.status.code(), None, "{at}");
            self.assert_old_or_new(&project.snapshot(), &at);
            self.assert_completes(&project, &at);
        }
    }

    fn survives_errors(&self) {
        for (project, output) in self.faults("error") {
            let at = printed(&output);
            let now = project.snapshot();
            self.assert_old_or_new(&now, &at);
            let written = changed(&self.before, &now);
            if output.status.success() {
                // After a failed sync, it is only uncertain whether the renames are on disk.
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

fn project_of(files: &Snapshot) -> Project {
    let project = Project::new();
    for (path, content) in files {
        project.write(path, content);
    }
    project
}

pub(crate) fn command(project: &Project) -> Command {
    let mut command = koze();
    let (state, dir) = project.state_env();
    command.current_dir(project.dir()).env("NO_COLOR", "1").env("COLUMNS", "100").env(state, dir);
    command
}

pub(crate) fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns whether koze uses this name only for temporary files.
fn is_temporary(path: &str) -> bool {
    path.ends_with(".koze-tmp") || path.contains(".koze-tmp/")
}

fn without_temporary(mut files: Snapshot) -> Snapshot {
    files.retain(|path, _| !is_temporary(path));
    files
}

/// Returns the paths of the files that differ, sorted.
fn changed(before: &Snapshot, now: &Snapshot) -> Vec<String> {
    let now = without_temporary(now.clone());
    let mut paths: Vec<String> = before.keys().chain(now.keys()).cloned().collect();
    paths.sort();
    paths.dedup();
    paths.retain(|path| before.get(path) != now.get(path));
    paths
}

/// Returns the files in the help of K057, sorted.
fn named(message: &str) -> Vec<String> {
    let help = message.lines().find(|line| line.contains(" were already written")).expect("what was written");
    let mut files: Vec<String> = help.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    files.sort();
    files
}

pub(crate) fn cold() -> Scenario {
    let project = shell("#[sandbox]\npub struct ShellSandbox;");
    project.write("wrangler.jsonc", BY_HAND);
    plain(&project, "src/server/python.sandbox.rs", "PythonSandbox");
    Scenario::new(&project, &["build"])
}

/// A project with a renamed class, a changed attribute, and a removed attribute.
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

pub(crate) fn removal(storage: &str) -> Scenario {
    let project = changed_project();
    built(&project);
    fs_err::remove_file(project.path("src/server/python.sandbox.rs")).expect("it was there");
    Scenario::new(&project, &["remove", "python", storage])
}

/// A command that moves a source and writes the other files with it.
fn rename() -> Scenario {
    let project = changed_project();
    built(&project);
    Scenario::new(&project, &["rename", "python", "snake"])
}

fn addition() -> Scenario {
    let project = changed_project();
    built(&project);
    Scenario::new(&project, &["add", "extra"])
}

/// A move to the backend `managed`, in place or side by side.
fn migration(config: (&str, &str), side_by_side: bool) -> Scenario {
    let project = package();
    project.write(config.0, config.1);
    let native = "#[sandbox(backend = \"native\", image = \"debian:12-slim\", instance_type = \"basic\")]";
    sandbox(&project, SHELL, &format!("{native}\npub struct ShellSandbox;"));
    built(&project);
    let in_place = ["migrate", "--backend", "managed", "shell"];
    let more: &[&str] = if side_by_side { &["--side-by-side"] } else { &[] };
    Scenario::new(&project, &[&in_place[..], more].concat())
}

const TOML: (&str, &str) =
    ("wrangler.toml", "# Written by hand.\nname = \"app\"\nmain = \"src/generated/worker.mjs\"\n");

#[test]
fn a_kill_or_a_full_disk_in_a_migration() {
    for config in [("wrangler.jsonc", BY_HAND), TOML] {
        for side_by_side in [false, true] {
            let scenario = migration(config, side_by_side);
            scenario.survives_kills();
            scenario.survives_errors();
            scenario.repeats_change_nothing();
        }
    }
}

#[test]
fn a_kill_or_a_full_disk_in_a_rename() {
    rename().survives_kills();
    rename().survives_errors();
}

#[test]
fn a_kill_or_a_full_disk_in_an_addition() {
    addition().survives_kills();
    addition().survives_errors();
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

/// The run that finishes an interrupted one may be killed, too.
#[test]
fn a_kill_while_finishing_another_run() {
    let scenario = incremental();
    let first = scenario
        .faults("kill")
        .position(|(project, _)| changed(&scenario.before, &project.snapshot()).len() == 1)
        .expect("a kill after the first file");
    for point in 1..MAX_POINTS {
        // The journal belongs to the directory, so each one is killed there.
        let project = scenario.project();
        scenario.run(&project, Some(format!("kill@{}", first + 1)));
        let output = scenario.run(&project, Some(format!("kill@{point}")));
        let at = printed(&output);
        scenario.assert_old_or_new(&project.snapshot(), &at);
        scenario.assert_completes(&project, &at);
        if output.status.success() {
            assert!(point > 5, "{output:?}");
            return;
        }
    }
    panic!("no end");
}

#[test]
fn finished_files_are_reported() {
    let scenario = incremental();
    let mut after_two = scenario
        .faults("error")
        .skip_while(|(_, output)| !printed(output).contains("already written"))
        .skip(1);
    let (project, output) = after_two.next().expect("an error after two files");
    let message = printed(&output).replace(&project.dir().display().to_string(), "[PROJECT]");
    let (_fault, message) = message.split_once('\n').expect("several lines");
    assert_snapshot!(message, @"
    error[K057]: failed to write `[PROJECT]/src/generated/env.rs`: No space left on device (os error 28)
     |
     = help: `wrangler.jsonc` and `src/generated/mod.rs` were already written, each completely: resolve the cause, then run the command again to write the rest

    1 error
    ");
    assert_snapshot!(built(&project).stdout, @"
    completed an interrupted run: wrote `src/generated/env.rs`, `src/generated/tools.rs`, `src/generated/worker.mjs`, `src/generated/worker.d.mts` and `koze.lock`
    2 sandboxes in wrangler.jsonc, SDK 0.12.10 from package.json
      src/server/python.sandbox.rs  PythonSandbox  PYTHON_SANDBOX  docker.io/cloudflare/sandbox:0.12.10
      src/server/shell.sandbox.rs   BashSandbox    SHELL_SANDBOX   docker.io/cloudflare/sandbox:0.12.10
    nothing to do: every file is in step
    ");
}

/// If the configuration is reverted after a kill, as with `git checkout`, the reverted one counts.
#[test]
fn a_configuration_that_was_reverted_after_a_kill() {
    let scenario = incremental();
    for (project, output) in scenario.faults("kill") {
        if project.read("koze.lock").as_bytes() == scenario.after["koze.lock"] {
            // The build was complete, so the next one rightly reports the missing migration.
            return;
        }
        project.write("wrangler.jsonc", &scenario.before["wrangler.jsonc"]);
        scenario.assert_completes(&project, &printed(&output));
    }
}

/// User edits after a kill are never overwritten, and the build starts from them.
#[test]
fn an_edit_after_a_kill_is_kept() {
    let scenario = incremental();
    for (project, output) in scenario.faults("kill") {
        let at = printed(&output);
        project.write("wrangler.jsonc", project.read("wrangler.jsonc") + "// mine\n");
        let run = project.koze(&["build"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{at}");
        let mut expected = scenario.after.clone();
        expected.entry("wrangler.jsonc".to_owned()).or_default().extend(b"// mine\n");
        assert_eq!(project.diff(&expected), "", "{at}");
    }
}

fn new_project(place: &Project, fault: Option<String>) -> Output {
    let mut command = command(place);
    command.args(["new", "hello", "--runtime-path"]).arg(root().join("runtime"));
    if let Some(fault) = fault {
        command.env("KOZE_FAULT", fault);
    }
    run(command, Duration::from_mins(1))
}

/// A new directory appears atomically. An existing empty one is filled, and the next run resumes if interrupted.
#[test]
fn a_kill_or_a_full_disk_in_a_new_project() {
    for (empty, kind) in [(false, "kill"), (false, "error"), (true, "kill"), (true, "error")] {
        let whole = Project::new();
        assert!(new_project(&whole, None).status.success());
        let whole = whole.snapshot();
        for point in 1.. {
            assert!(point < MAX_POINTS);
            let place = Project::new();
            if empty {
                fs_err::create_dir(place.path("hello")).expect("a directory");
            }
            let output = new_project(&place, Some(format!("{kind}@{point}")));
            let at = printed(&output);
            let now = place.snapshot();
            if !at.starts_with("fault ") {
                assert!(point > 20 && output.status.success(), "{at}");
                break;
            }
            if kind == "error" && !output.status.success() && changed(&Snapshot::new(), &now).is_empty() {
                assert!(now.is_empty(), "a temporary file is left after {at}: {:?}", now.keys());
            }
            let complete = without_temporary(now.clone()) == whole;
            let nothing = changed(&Snapshot::new(), &now).is_empty();
            assert!(empty || complete || nothing, "a part of a project after {at}");
            if !complete || now != whole {
                let again = new_project(&place, None);
                assert!(again.status.success(), "{at}: {again:?}");
            }
            assert_eq!(place.diff(&whole), "", "the next run after {at}");
        }
    }
}

/// Limits the file size to half a kilobyte: writing the first longer file fails as on a full disk.
#[test]
fn a_file_that_cannot_be_written_completely() {
    let scenario = cold();
    let project = scenario.project();
    let koze = command(&project);
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh"])
        .arg(koze.get_program())
        .arg("build")
        .current_dir(project.dir())
        .env("NO_COLOR", "1");
    let output = run(command, Duration::from_mins(1));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_snapshot!(printed(&output).replace(&project.dir().display().to_string(), "[PROJECT]"), @"
    error[K057]: failed to write `[PROJECT]/wrangler.jsonc`: File too large (os error 27)
     |
     = help: resolve the cause, then run the command again

    1 error; nothing was written
    ");
    assert_eq!(project.diff(&scenario.before), "");
    assert!(!project.path("src/generated").exists(), "not even a directory is left");
}
