//! The IDs of contexts, and the errors for contexts that do not exist any more.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Code, Error};
use crate::sandbox::process::{Process, ProcessId};
use crate::sandbox::{Command, Sandbox};
use crate::time::{Start, now};

/// The label that marks the process of a context.
pub const LABEL: &str = "koze: code context";
/// How long the interpreter of a context may take to end.
const END: Duration = Duration::from_secs(10);
/// How many bytes one read takes at most.
const PIECE: usize = 256 << 10;
/// The timeout for determining the age of a sandbox.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The unit of process times on Linux, in milliseconds.
const TICK: u64 = 10;
/// The position of the start time among the fields of a process's `stat` that follow its name.
const STARTED: usize = 19;

/// The ID of a context: that of its process, and when it was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContextId {
    process: ProcessId,
    /// In milliseconds since 1970.
    created: u64,
}

impl ContextId {
    pub(super) fn new(process: &ProcessId) -> Self {
        ContextId { process: process.clone(), created: now() }
    }
}

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}", self.process, self.created)
    }
}

impl FromStr for ContextId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = text.split_once('-').and_then(|(process, created)| {
            let id = ContextId {
                process: ProcessId::new(process).ok()?,
                created: u64::from_str_radix(created, 16).ok()?,
            };
            (id.to_string() == text).then_some(id)
        });
        parsed.ok_or_else(|| not_one("the text is not the ID of a context"))
    }
}

/// Finds a context among the processes of a sandbox.
pub(super) async fn find_driver<S: Sandbox>(sandbox: &S, id: &ContextId) -> crate::Result<S::Process> {
    let all = sandbox.processes().await?;
    match all.into_iter().find(|info| info.id == id.process) {
        Some(info) if info.label.as_deref() != Some(LABEL) => {
            Err(not_one("the ID belongs to a process that is not a context"))
        }
        Some(info) if info.exit.is_some() => Err(ended_error()),
        Some(_) => sandbox.process(&id.process).await?.ok_or_else(ended_error),
        None => Err(lost_error(sandbox, id).await),
    }
}

/// Ends the interpreter of a context, as the end of its input does. Returns whether it has ended in time.
pub(super) async fn end_interpreter<P: Process>(driver: &P) -> crate::Result<bool> {
    driver.close_stdin().await?;
    let start = Start::now();
    let mut cursor = 0;
    loop {
        // A program whose output nobody reads would wait for that.
        let read = driver.read(cursor, PIECE, END.saturating_sub(start.elapsed())).await?;
        cursor = read.next;
        if read.exit.is_some() {
            return Ok(true);
        }
        if start.elapsed() >= END {
            return Ok(false);
        }
    }
}

/// Returns the error for a context that ended while it was in use.
pub(super) async fn lost_during<S: Sandbox>(sandbox: &S, driver: &S::Process, id: &ContextId) -> Error {
    match sandbox.process(driver.id()).await {
        Ok(Some(_)) => ended_error(),
        Ok(None) => lost_error(sandbox, id).await,
        Err(error) => error,
    }
}

/// Returns the error for a context whose interpreter has ended.
pub(super) fn ended_error() -> Error {
    gone_error(
        "the context has ended: it was deleted, its code ended the interpreter, or it was killed after a timeout",
    )
}

/// Returns the error for a context that the sandbox does not know.
async fn lost_error<S: Sandbox>(sandbox: &S, id: &ContextId) -> Error {
    match read_start_time(sandbox).await {
        Some(started) if started > id.created => gone_error(
            "the sandbox went to sleep or was restarted after the context was created, which ends all contexts",
        ),
        // The first process of a sandbox on this machine may have been started ahead, so its age proves nothing.
        _ => gone_error(
            "the context has ended: the sandbox went to sleep or was restarted, which ends all contexts, or it needed the room for \
             other processes",
        ),
    }
}

fn not_one(why: &str) -> Error {
    let message = format!("{why}: use an ID that was returned when a context was created");
    Error::new(Code::NotFound, message)
}

fn gone_error(why: &str) -> Error {
    Error::new(Code::NotFound, format!("{why}. Create another context, and run what it needs again"))
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

    #[test]
    fn ids() {
        let id = ContextId::new(&ProcessId::random());
        assert_eq!(id.to_string().parse::<ContextId>().unwrap(), id);
        let process = "0".repeat(32);
        for bad in
            ["", "x", &process, &format!("{process}-"), &format!("{process}-0g"), &format!("{process}-01")]
        {
            assert_eq!(bad.parse::<ContextId>().unwrap_err().code, Code::NotFound, "{bad}");
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
