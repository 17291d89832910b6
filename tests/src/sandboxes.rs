//! A project with sandboxes on this machine.

use std::ops::Deref;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fs_err as fs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{Project, Run, koze, run};

/// The idle timeout of supervisors, in milliseconds, for those that a killed test leaves behind.
const IDLE: &str = "20000";

/// The replacement for `~/.local/state`, below the project.
const STATE: &str = "state";
/// The directory of the images.
const IMAGES: &str = "images";

/// The timeout of expected events.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A project with sandboxes. On drop, kills every supervisor whose state is in its directory, by process ID.
pub struct Sandboxes(Project);

impl Sandboxes {
    /// Wraps a project.
    pub fn of(project: Project) -> Self {
        Sandboxes(project)
    }

    /// Returns a koze command in the project's directory.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = koze();
        command.args(args).current_dir(self.dir()).envs(self.env());
        command
    }

    /// Returns koze's environment, which places the sandboxes and the images below the project, so that they are deleted with it.
    pub fn env(&self) -> [(&'static str, String); 3] {
        let path = |name| self.path(name).to_string_lossy().into_owned();
        [
            ("KOZE_SUPERVISOR_IDLE_MS", IDLE.to_owned()),
            ("XDG_STATE_HOME", path(STATE)),
            ("KOZE_IMAGES", path(IMAGES)),
        ]
    }

    /// Returns a command in the project's directory for what a supervisor considers another build of koze.
    pub fn other_build(&self, args: &[&str]) -> Command {
        let program = self.path("other-koze");
        // Copy with another process: if this one had the copy open for writing, a child of another test could inherit
        // the descriptor and prevent the copy from being executed.
        let mut copy = Command::new("cp");
        copy.arg(koze().get_program()).arg(&program);
        assert!(run(copy, TIMEOUT).status.success(), "a copy of koze");
        let file = fs::File::open(&program).expect("the copy");
        file.file().set_modified(SystemTime::now() - Duration::from_hours(1)).expect("another time");
        let mut command = Command::new(program);
        command.args(args).current_dir(self.dir()).envs(self.env());
        command
    }

    /// Returns the state directory, relative to the project; `None` before the first call.
    pub fn state(&self) -> Option<String> {
        let mut found = fs::read_dir(self.path(STATE).join("koze")).ok()?.flatten();
        let name = found.next()?.file_name().to_string_lossy().into_owned();
        Some(format!("{STATE}/koze/{name}"))
    }

    /// Runs koze until it exits.
    pub fn koze(&self, args: &[&str]) -> Run {
        self.run(self.command(args))
    }

    /// Runs koze with standard input from `printf`, which may produce any bytes.
    pub fn piped(&self, text: &str, args: &[&str]) -> Run {
        let koze = self.command(args);
        let mut command = Command::new("sh");
        command.args(["-c", "printf \"$0\" | \"$@\"", text]).arg(koze.get_program()).args(koze.get_args());
        for (name, value) in koze.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        self.run(command)
    }

    /// Calls a tool that must succeed without output on standard error.
    pub fn call(&self, tool: &str, input: &Value, args: &[&str]) -> Value {
        let input = input.to_string();
        let run = self.koze(&[&["call", tool, &input], args].concat());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        serde_json::from_str(&run.stdout).expect("a JSON document")
    }

    /// Returns the output of a command in the sandbox `default`.
    pub fn shell(&self, command: &str) -> String {
        let result = self.call("shell", &serde_json::json!({ "command": command }), &[]);
        result["stdout"].as_str().expect("a text").to_owned()
    }

    /// Returns the process IDs of the supervisors.
    pub fn supervisors(&self) -> Vec<i32> {
        let here = self.dir().to_string_lossy().into_owned();
        let supervisor = |args: &[String]| {
            args.get(1).is_some_and(|arg| arg == "supervise")
                && args[2..].iter().any(|arg| arg.starts_with(&here))
        };
        processes(supervisor)
    }

    /// Kills the supervisors and waits until they are gone.
    pub fn kill_supervisors(&self) {
        for id in self.supervisors() {
            signal(id, Signal::KILL);
        }
        eventually("the supervisors are gone", || self.supervisors().is_empty());
    }
}

impl Deref for Sandboxes {
    type Target = Project;

    fn deref(&self) -> &Project {
        &self.0
    }
}

impl Drop for Sandboxes {
    fn drop(&mut self) {
        // A supervisor that is just starting may not be visible yet.
        let deadline = Instant::now() + TIMEOUT;
        while let ids = self.supervisors()
            && !ids.is_empty()
            && Instant::now() < deadline
        {
            for id in ids {
                signal(id, Signal::KILL);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns the processes on this machine with matching arguments.
pub fn processes(wanted: impl Fn(&[String]) -> bool) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|id| {
            // The process may be gone, or belong to another user.
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let args: Vec<String> =
                line.split(|byte| *byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
            wanted(&args)
        })
        .collect()
}

/// A shell loop that waits until the `sleep` started with `sleep 1 &` runs. At first, the child is still a copy of the
/// shell.
pub const STARTED: &str = "until grep -qx sleep /proc/$!/comm; do :; done";

/// Returns whether a `sleep` with this argument runs on this machine.
pub fn sleeps(seconds: &str) -> bool {
    !processes(|args| args[0] == "sleep" && args.get(1).is_some_and(|arg| arg == seconds)).is_empty()
}

/// Sends a signal to a process, unless it is gone.
pub fn signal(id: i32, signal: Signal) {
    if let Some(id) = Pid::from_raw(id) {
        let _ = kill_process(id, signal);
    }
}

/// Waits for a condition.
///
/// # Panics
///
/// Panics if it does not hold within half a minute.
pub fn eventually(what: &str, come: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !come() {
        assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
