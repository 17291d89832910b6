//! Processes for models: programs that keep running after the call that started them. Both families that run commands share
//! this.

use std::time::Duration;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Reply, input};
use crate::error::{Code, Error, Result};
use crate::provider::Profile;
use crate::sandbox::Sandbox;
use crate::sandbox::process::{MAX_LABEL, Overflow, Process, ProcessId, Program, Signal};
use crate::shell::{self, Line, ShellCommand};
use crate::workspace::{WorkspaceConfig, is_context_label};

/// The names of the tools, which `processes = false` removes.
pub(super) const NAMES: [&str; 4] = ["process_list", "process_output", "process_input", "process_kill"];
/// The key of the input of `shell` and `run` that starts a process.
pub(super) const BACKGROUND: &str = "background";

pub(super) const LIST: &str = "List the processes that were started with `background`, running and exited. Returns processes: \
    id, command, status and exit_code.";
pub(super) const OUTPUT: &str = "Read what a process has printed, stdout and stderr in the order of arrival, at most 30,000 bytes. \
    Returns output, next and, once it has ended and all is read, exit_code. `dropped` counts bytes that are no longer kept.";
pub(super) const INPUT: &str = "Write to the standard input of a process. Returns how many bytes were written: fewer than all if the \
    process does not read them.";
pub(super) const KILL: &str = "Send a signal to a process. Returns ok and, if it has ended, exit_code.";

/// How many bytes of output are kept for later calls.
const BUFFER: usize = 1 << 20;
/// The longest wait for output, in milliseconds.
const MAX_WAIT: u64 = 60_000;
/// How long a process may take to read its input.
const INPUT_TIME: Duration = Duration::from_secs(5);
/// How long a killed process may take to end.
const END_TIME: Duration = Duration::from_secs(2);

/// The part of a process's output to read. The family adds where the process is.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct OutputInput {
    /// The ID of the process.
    pub(super) id: String,
    /// Where to begin: 0, or `next` of an earlier call.
    #[serde(default)]
    pub(super) since: u64,
    /// How long to wait for output in milliseconds. Output that is there is returned at once.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(max = 60_000)))]
    pub(super) wait_ms: u64,
}

/// What to write to a process.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct InputInput {
    /// The ID of the process.
    pub(super) id: String,
    /// The text to write to its standard input. A line ends with `\n`.
    #[serde(default)]
    pub(super) text: String,
    /// Whether to close its standard input afterwards.
    #[serde(default)]
    pub(super) close: bool,
}

/// The process to end.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct KillInput {
    /// The ID of the process.
    pub(super) id: String,
    /// The signal. `KILL` also ends all processes that it started.
    #[serde(default)]
    pub(super) signal: SignalName,
}

/// The name of a signal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "documented values would make the schema a list of constants")]
pub enum SignalName {
    #[default]
    Kill,
    Term,
    Int,
    Hup,
    Quit,
    Usr1,
    Usr2,
    Stop,
    Cont,
}

impl From<SignalName> for Signal {
    fn from(name: SignalName) -> Self {
        match name {
            SignalName::Kill => Signal::Kill,
            SignalName::Term => Signal::Terminate,
            SignalName::Int => Signal::Interrupt,
            SignalName::Hup => Signal::Hangup,
            SignalName::Quit => Signal::Quit,
            SignalName::Usr1 => Signal::User1,
            SignalName::Usr2 => Signal::User2,
            SignalName::Stop => Signal::Stop,
            SignalName::Cont => Signal::Continue,
        }
    }
}

impl From<Signal> for SignalName {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Kill => SignalName::Kill,
            Signal::Terminate => SignalName::Term,
            Signal::Interrupt => SignalName::Int,
            Signal::Hangup => SignalName::Hup,
            Signal::Quit => SignalName::Quit,
            Signal::User1 => SignalName::Usr1,
            Signal::User2 => SignalName::Usr2,
            Signal::Stop => SignalName::Stop,
            Signal::Continue => SignalName::Cont,
        }
    }
}

/// Checks that agents may use processes of sandboxes with a profile.
///
/// # Errors
/// [`Code::PermissionDenied`] otherwise.
pub(super) fn check_allowed(profile: &Profile) -> Result<()> {
    if profile.processes {
        return Ok(());
    }
    let message = format!(
        "sandboxes with the image `{}` keep no processes for agents (`processes = false`): run the command without `{BACKGROUND}`",
        profile.name
    );
    Err(Error::new(Code::PermissionDenied, message))
}

/// Checks that agents may use processes of a workspace.
///
/// # Errors
/// [`Code::PermissionDenied`] otherwise.
pub(super) fn check_workspace(config: &WorkspaceConfig) -> Result<()> {
    if config.processes {
        return Ok(());
    }
    let message = format!(
        "the workspace `{}` keeps no processes for agents (`processes = false`): run the command without `{BACKGROUND}`",
        config.name
    );
    Err(Error::new(Code::PermissionDenied, message))
}

/// Starts a command as a process. Returns its ID.
pub(super) async fn start<S: Sandbox>(sandbox: &S, command: &ShellCommand<'_>) -> Result<Reply> {
    let label = label(&command.line);
    let adjust = |program| Program {
        buffer: BUFFER,
        overflow: Overflow::DropOldest,
        label: Some(label.clone()),
        ..program
    };
    let process = shell::start_with(sandbox, command, adjust).await?;
    if let Some(text) = command.stdin {
        write_text(&process, text).await?;
        process.close_stdin().await?;
    }
    Reply::ok(json!({ "process": process.id().as_str() }))
}

/// Returns the start of a command, for the list of processes.
fn label(line: &Line<'_>) -> String {
    let mut text = line.to_text();
    if is_context_label(&text[..text.floor_char_boundary(MAX_LABEL)]) {
        // A command is not taken for a code context.
        text.insert(0, ' ');
    }
    text.truncate(text.floor_char_boundary(MAX_LABEL));
    text
}

#[derive(Debug, Serialize)]
struct Listed {
    id: String,
    command: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

/// Lists the processes of a sandbox.
pub(super) async fn list<S: Sandbox>(sandbox: &S) -> Result<Reply> {
    let processes = sandbox.processes().await?;
    let listed: Vec<Listed> = processes
        .into_iter()
        .map(|info| Listed {
            id: info.id.to_string(),
            command: info.label.unwrap_or(info.program),
            status: if info.exit.is_some() { "exited" } else { "running" },
            exit_code: info.exit.map(|exit| exit.code),
        })
        .collect();
    Reply::ok(json!({ "processes": listed }))
}

#[derive(Debug, Serialize)]
struct Read {
    output: String,
    next: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

/// The maximum number of bytes of one read.
const MAX_READ: usize = 30_000;

/// Reads the output of a process.
pub(super) async fn read_output<S: Sandbox>(sandbox: &S, input: OutputInput) -> Result<Reply> {
    let wait = input::check_range("wait_ms", input.wait_ms, 0..=MAX_WAIT)?;
    let process = find(sandbox, &input.id).await?;
    let read = process.read(input.since, MAX_READ, Duration::from_millis(wait)).await?;
    let mut bytes: Vec<u8> = read.chunks.into_iter().flat_map(|chunk| chunk.bytes).collect();
    let mut next = read.next;
    if read.exit.is_none() {
        // The rest of a character comes with the next read.
        let incomplete = incomplete_tail(&bytes);
        bytes.truncate(bytes.len() - incomplete);
        next -= incomplete as u64;
    }
    let output = String::from_utf8_lossy(&bytes).into_owned();
    let dropped = (read.dropped > 0).then_some(read.dropped);
    Reply::ok(Read { output, next, dropped, exit_code: read.exit.map(|exit| exit.code) })
}

/// Returns how many bytes at the end of a text are the start of a character.
fn incomplete_tail(bytes: &[u8]) -> usize {
    match std::str::from_utf8(&bytes[bytes.len().saturating_sub(4)..]) {
        Err(error) if error.error_len().is_none() => bytes.len().min(4) - error.valid_up_to(),
        _ => 0,
    }
}

/// Writes to the standard input of a process.
pub(super) async fn write_input<S: Sandbox>(sandbox: &S, input: InputInput) -> Result<Reply> {
    let process = find(sandbox, &input.id).await?;
    let written = write_text(&process, &input.text).await?;
    if input.close && written == input.text.len() {
        process.close_stdin().await?;
    }
    Reply::ok(json!({ "written": written }))
}

/// Writes as much of a text as the process reads in time. Returns how many bytes that were.
async fn write_text<P: Process>(process: &P, text: &str) -> Result<usize> {
    let mut written = 0;
    while written < text.len() {
        let piece = &text.as_bytes()[written..text.len().min(written + BUFFER / 4)];
        match process.write_stdin(piece.to_vec(), INPUT_TIME).await? {
            0 => break,
            taken => written += taken,
        }
    }
    Ok(written)
}

/// Sends a signal to a process.
pub(super) async fn kill<S: Sandbox>(sandbox: &S, input: KillInput) -> Result<Reply> {
    let process = find(sandbox, &input.id).await?;
    process.signal(input.signal.into()).await?;
    let ends = matches!(input.signal, SignalName::Kill | SignalName::Term | SignalName::Int);
    let exit = if ends { process.wait(END_TIME).await? } else { None };
    match exit {
        Some(exit) => Reply::ok(json!({ "ok": true, "exit_code": exit.code })),
        None => Reply::ok(json!({ "ok": true })),
    }
}

/// Returns the process with an ID.
async fn find<S: Sandbox>(sandbox: &S, id: &str) -> Result<S::Process> {
    let found = sandbox.process(&ProcessId::new(id)?).await?;
    found.ok_or_else(|| {
        let message = format!(
            "there is no process `{id}` in this sandbox: it ended with the sandbox, or long ago. `process_list` lists those that exist"
        );
        Error::new(Code::NotFound, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_not_cut() {
        for (bytes, tail) in [
            (&b""[..], 0),
            (b"abc", 0),
            ("aä".as_bytes(), 0),
            (&"aä".as_bytes()[..2], 1),
            (&"日".as_bytes()[..2], 2),
            (&"xy😀".as_bytes()[..5], 3),
            (b"abc\xff", 0),
        ] {
            assert_eq!(incomplete_tail(bytes), tail, "{bytes:?}");
        }
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(label(&Line::Shell { prelude: None, command: "ls" }), "ls");
        let long = "é".repeat(100);
        assert_eq!(label(&Line::Shell { prelude: None, command: &long }), "é".repeat(MAX_LABEL / 2));
    }
}
