//! Attempts by the input of a tool, not by a program in a sandbox: what the input costs this program.
//!
//! Each runs in a child process, so that a success ends that process and not the proof. It succeeds if the child process
//! and its own children take more memory or time than the attempt allows, or if the child process crashes. The child
//! process ends as soon as a bound is passed, so that a control harms nothing else.

mod script;
mod text;
mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use super::Fault;
use super::stage::Stage;
use crate::weakness::Weakness;

/// The argument that makes this program run an attempt; the name, an empty directory and one of its runs follow.
pub(super) const INPUT: &str = "--koze-input";
/// The run with all protections.
const PROTECTED: &str = "protected";
/// The run without those that prevent the attempt.
const CONTROL: &str = "control";
/// How often a child process is checked for its end.
const PAUSE: Duration = Duration::from_millis(10);

/// An attempt.
pub(super) struct Input {
    pub(super) name: &'static str,
    /// The protections that its control leaves out.
    pub(super) without: &'static [Weakness],
    /// How much memory its processes may gain, in MiB.
    memory_mib: u64,
    /// How long it may take.
    time: Duration,
    make: Make,
}

/// Makes an attempt. `Ok` means that it succeeded, even if no bound was passed.
type Make = fn(&Target) -> io::Result<()>;

/// What an attempt is made on.
struct Target {
    /// An empty directory.
    dir: PathBuf,
    /// The protections that are missing.
    weak: &'static [Weakness],
}

impl Target {
    /// Returns a state directory, and a provider on it, without the missing protections.
    fn stage(&self) -> io::Result<Stage> {
        Stage::new(self.dir.join("state"), self.weak.to_vec(), None, None).map_err(io::Error::other)
    }
}

/// All attempts.
pub(super) const INPUTS: &[Input] = &[
    statement("a_statement_without_end", script::endless_statement),
    statement("a_function_without_end", script::endless_function),
    statement("temporary_tables", script::temporary_table),
    statement("memory_of_a_sort", script::sort),
    statement("memory_of_a_recursive_query", script::recursive_query),
    statement("threads_that_wait", script::waiting_statements),
    pending("arguments_that_wait", script::arguments),
    pending("answers_that_wait", script::answers),
    text("a_command_of_nested_conditions", &[Weakness::Nesting], text::nested_command),
    text("an_input_of_millions_of_values", &[Weakness::Values], text::millions_of_values),
];

/// An attempt by the statements of scripts.
const fn statement(name: &'static str, make: Make) -> Input {
    let time = Duration::from_secs(15);
    Input { name, without: &[Weakness::Statements], memory_mib: 256, time, make }
}

/// An attempt by what the calls of scripts hold.
const fn pending(name: &'static str, make: Make) -> Input {
    let time = Duration::from_mins(1);
    Input { name, without: &[Weakness::Pending], memory_mib: 256, time, make }
}

/// An attempt by a text that a tool reads.
const fn text(name: &'static str, without: &'static [Weakness], make: Make) -> Input {
    Input { name, without, memory_mib: 256, time: Duration::from_mins(1), make }
}

/// Returns the attempt with this name.
pub(super) fn find(name: &str) -> Option<&'static Input> {
    INPUTS.iter().find(|input| input.name == name)
}

/// Makes an attempt in a child process, with all protections or as its control. Returns its output: `taken`, or `refused: `
/// with the reason.
pub(super) async fn attempt(input: &Input, is_control: bool, dir: &Path) -> Result<String, Fault> {
    std::fs::create_dir(dir)?;
    let child = Command::new("/proc/self/exe")
        .arg(INPUT)
        .arg(input.name)
        .arg(dir)
        .arg(if is_control { CONTROL } else { PROTECTED })
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut process = Process(child);
    let status = loop {
        match process.0.try_wait()? {
            Some(status) => break status,
            None => tokio::time::sleep(PAUSE).await,
        }
    };
    let output = io::read_to_string(process.0.stdout.take().ok_or("the attempt has no output")?)?;
    judge(status, output.trim_end())
}

/// Returns the result of an attempt from the end of its process.
fn judge(status: ExitStatus, output: &str) -> Result<String, Fault> {
    match status.code() {
        Some(0) => Ok(output.to_owned()),
        Some(code) => Err(format!("the attempt ended with {code}").into()),
        None => Ok(format!("taken: the process ended with {status}")),
    }
}

/// A child process. It is killed when this is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes the attempt that the arguments name, in the child process.
pub(super) fn run() -> ExitCode {
    let mut arguments = std::env::args().skip(2);
    let input = arguments.next().and_then(|name| find(&name));
    let dir = arguments.next().map(PathBuf::from);
    let (Some(input), Some(dir)) = (input, dir) else { return ExitCode::from(2) };
    let weak = match arguments.next().as_deref() {
        Some(PROTECTED) => &[],
        Some(CONTROL) => input.without,
        _ => return ExitCode::from(2),
    };
    if watch::start(input.memory_mib, input.time).is_err() {
        return ExitCode::from(2);
    }
    match (input.make)(&Target { dir, weak }) {
        Ok(()) => watch::end("taken"),
        Err(error) => watch::end(&format!("refused: {error}")),
    }
}
