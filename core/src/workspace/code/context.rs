//! The IDs of contexts, how they are found among the processes of a sandbox, and the errors for those that do not run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::frames::{Frames, Message, Part};
use super::settings::load_settings;
use crate::error::{Code, Error, Result};
use crate::sandbox::process::{Process, ProcessInfo, Stream};
use crate::sandbox::{Command, Sandbox};
use crate::time::{Start, now};

/// The beginning of the labels that mark the processes of contexts. The ID follows.
const LABEL: &str = "koze: code context ";
/// How many bytes one read takes at most.
const PIECE: usize = 256 << 10;
/// A read with fewer parts is complete.
const MANY_CHUNKS: usize = 1000;
/// The timeout for determining the age of a sandbox.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The unit of process times on Linux, in milliseconds.
const TICK: u64 = 10;
/// The position of the start time among the fields of a process's `stat` that follow its name.
const STARTED: usize = 19;

/// Returns whether a label marks the process of a context.
pub fn is_context_label(label: &str) -> bool {
    label.strip_prefix(LABEL).is_some_and(|id| id.parse::<ContextId>().is_ok())
}

/// The ID of a context: a random number, and when it was created. It stays the same when the context is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContextId {
    number: u32,
    /// In milliseconds since 1970.
    created: u64,
}

impl ContextId {
    /// Chooses an ID for a context that is created now.
    pub(super) fn random() -> Self {
        ContextId { number: uuid::Uuid::new_v4().as_fields().0, created: now() }
    }

    /// Returns the label of its process.
    pub(super) fn label(self) -> String {
        format!("{LABEL}{self}")
    }

    /// Returns how long ago it was created.
    pub(super) fn age(self) -> Duration {
        Duration::from_millis(now().saturating_sub(self.created))
    }

    /// Returns the context of a process, if it is that of one.
    pub(super) fn of_process(info: &ProcessInfo) -> Option<Self> {
        info.label.as_deref()?.strip_prefix(LABEL)?.parse().ok()
    }
}

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{:x}", self.number, self.created)
    }
}

impl FromStr for ContextId {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let (number, created) = text.split_once('-').ok_or(())?;
        let id = ContextId {
            number: u32::from_str_radix(number, 16).map_err(drop)?,
            created: u64::from_str_radix(created, 16).map_err(drop)?,
        };
        if id.to_string() == text { Ok(id) } else { Err(()) }
    }
}

/// Reads the ID of a context.
///
/// # Errors
/// [`Code::NotFound`] if the text is not one, with the contexts that run.
pub(super) async fn parse_id<S: Sandbox>(sandbox: &S, text: &str) -> Result<ContextId> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let message = format!(
        "the text is not the ID of a context: use an ID that was returned when a context was created{}",
        name_running(&sandbox.processes().await?)
    );
    Err(Error::new(Code::NotFound, message))
}

/// Returns the process of a context, if it runs.
pub(super) async fn find_process<S: Sandbox>(sandbox: &S, id: ContextId) -> Result<Option<S::Process>> {
    let all = sandbox.processes().await?;
    match all.iter().find(|info| info.exit.is_none() && ContextId::of_process(info) == Some(id)) {
        Some(info) => sandbox.process(&info.id).await,
        None => Ok(None),
    }
}

/// Ends the interpreter of a context, as the end of its input does. Returns whether it has ended in time.
pub(super) async fn end_interpreter<P: Process>(driver: &P, time: Duration) -> Result<bool> {
    driver.close_stdin().await?;
    let start = Start::now();
    let mut cursor = 0;
    loop {
        // A program whose output nobody reads would wait for that.
        let read = driver.read(cursor, PIECE, time.saturating_sub(start.elapsed())).await?;
        cursor = read.next;
        if read.exit.is_some() {
            return Ok(true);
        }
        if start.elapsed() >= time {
            return Ok(false);
        }
    }
}

/// Returns whether the code of a context runs. Its driver says where code begins and ends.
pub(super) async fn is_busy<P: Process>(driver: &P) -> Result<bool> {
    let mut frames = Frames::default();
    let mut cursor = 0;
    // Only code that runs drops the message that it has begun, by printing more than is kept.
    let mut is_busy = true;
    loop {
        let read = driver.read(cursor, PIECE, Duration::ZERO).await?;
        for chunk in read.chunks.iter().filter(|chunk| chunk.stream == Stream::Stdout) {
            for part in frames.split_parts(&chunk.bytes) {
                match part {
                    Part::Message(Message::Begin { .. }) => is_busy = true,
                    Part::Message(Message::Ready | Message::End { .. }) => is_busy = false,
                    _ => {}
                }
            }
        }
        // The first read returns all that is kept, unless that has very many parts. A second one returns the rest.
        if read.chunks.len() < MANY_CHUNKS || cursor > 0 {
            return Ok(is_busy);
        }
        cursor = read.next;
    }
}

/// Returns the error for a context that does not run, or that cannot be restarted.
pub(super) async fn absence_error<S: Sandbox>(sandbox: &S, id: ContextId) -> Error {
    let (all, settings) = match (sandbox.processes().await, load_settings(sandbox, id).await) {
        (Ok(all), Ok(settings)) => (all, settings),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    let create = "Create another context";
    let advice = if settings.is_some() { "Restart it, which keeps its ID" } else { create };
    let runs =
        all.iter().rfind(|info| ContextId::of_process(info) == Some(id)).map(|info| info.exit.is_none());
    let (why, advice) = match (runs, settings) {
        (Some(true), Some(_)) => ("the context was restarted meanwhile", "Try again"),
        (Some(true), None) => {
            ("the file with its settings is gone, so the context cannot be restarted", create)
        }
        (Some(false), _) => (ENDED, advice),
        (None, _) => (explain_loss(sandbox, id).await, advice),
    };
    let message = format!("{why}. {advice}, and run what it needs again{}", name_running(&all));
    Error::new(Code::NotFound, message)
}

/// Why a context has ended whose process is known.
const ENDED: &str =
    "the context has ended: it was deleted, its code ended the interpreter, or it was killed after a timeout";

/// Returns the error for a driver that does not read any more. The caller knows more: see [`absence_error`].
pub(super) fn ended_error() -> Error {
    Error::new(Code::NotFound, ENDED)
}

/// Returns why the sandbox does not know the process of a context.
async fn explain_loss<S: Sandbox>(sandbox: &S, id: ContextId) -> &'static str {
    match read_start_time(sandbox).await {
        Some(started) if started > id.created => {
            "the sandbox went to sleep or was restarted after the context was created, which ends all contexts"
        }
        // The first process of a sandbox on this machine may have been started ahead, so its age proves nothing.
        _ => {
            "the context has ended: the sandbox went to sleep or was restarted, which ends all contexts, or it needed the room \
             for other processes"
        }
    }
}

/// Returns a sentence with the contexts that run, if there are any.
fn name_running(all: &[ProcessInfo]) -> String {
    let running = all.iter().filter(|info| info.exit.is_none());
    let ids: Vec<String> = running.filter_map(ContextId::of_process).map(|id| format!("`{id}`")).collect();
    if ids.is_empty() { String::new() } else { format!(". These contexts run: {}", ids.join(", ")) }
}

/// Returns when a sandbox has started, in milliseconds since 1970, by the age of its first process.
async fn read_start_time<S: Sandbox>(sandbox: &S) -> Option<u64> {
    // Only programs in the sandbox can read `/proc` of processes; file tools cannot.
    let command = Command {
        argv: ["cat", "/proc/1/stat", "/proc/uptime"].map(str::to_owned).to_vec(),
        working_dir: "/".to_owned(),
        env: Vec::new(),
        timeout: TIMEOUT,
        max_output: 4096,
    };
    let output = sandbox.exec(command).await.ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (stat, uptime) = text.trim_end().rsplit_once('\n')?;
    Some(now().saturating_sub(process_age(stat, uptime)?))
}

/// Returns the age of a process in milliseconds.
fn process_age(stat: &str, uptime: &str) -> Option<u64> {
    // The name may contain anything, so the fields begin after the last `)`.
    let (_, fields) = stat.rsplit_once(')')?;
    let started: u64 = fields.split_whitespace().nth(STARTED)?.parse().ok()?;
    let (seconds, parts) = uptime.split_whitespace().next()?.split_once('.')?;
    let now = seconds.parse::<u64>().ok()? * 100 + parts.parse::<u64>().ok()?;
    Some(now.checked_sub(started)? * TICK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::process::MAX_LABEL;

    #[test]
    fn ids() {
        let id = ContextId { number: 0xab, created: 0x19f };
        assert_eq!(
            (id.to_string().as_str(), id.label().as_str()),
            ("000000ab-19f", "koze: code context 000000ab-19f")
        );
        let longest = ContextId { number: u32::MAX, created: u64::MAX };
        assert!(longest.label().len() <= MAX_LABEL && is_context_label(&longest.label()));
        for id in [id, longest, ContextId::random()] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for bad in ["", "x", "000000ab", "000000ab-", "ab-19f", "000000ab-0g", "000000ab-01", "000000AB-19f"]
        {
            assert_eq!(bad.parse::<ContextId>(), Err(()), "{bad}");
        }
    }

    #[test]
    fn ages() {
        let stat = "1 (a) b) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 250 12345 67";
        assert_eq!(process_age(stat, "10.05 20.00\n"), Some(7550));
        for (stat, uptime) in
            [(stat, "1.00 1.00"), (stat, ""), ("", "10.05 1.00"), ("1 (a) S 1", "10.05 1.00")]
        {
            assert_eq!(process_age(stat, uptime), None);
        }
    }
}
