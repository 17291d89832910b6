//! One process of scripts, as seen by the host.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use koze_script::limits::{CALLS, LOG_BYTES, LOG_LINES, Limit, Limits};
use koze_script::protocol::{Failure, FromScript, Json, ToScript};
use tokio::sync::mpsc::{Receiver, UnboundedSender};

use super::line::Line;
use crate::launch::Spec;
use crate::weakness::{Weakness, Weaknesses};
use koze_core::error::{Code, Error, Result};
use koze_core::script::Ran;

/// The time after its limit at which a script is killed, if it has not ended by itself.
const GRACE: Duration = Duration::from_millis(50);
/// The timeout for compiling.
const CHECK: Duration = Duration::from_secs(10);
/// The maximum size of all pending calls of a script in bytes, as in a Worker.
const HELD: usize = 16 << 20;
/// The size of unsent answers in bytes from which on no further answer is taken. A script that computes reads none.
const UNSENT: usize = 4 << 20;

/// How much the calls of a script may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    held: usize,
    unsent: usize,
    /// How many answers are ready to be sent: the others are held where they come from.
    pub(super) ready: usize,
}

impl Bounds {
    pub(super) fn new(weak: &Weaknesses) -> Self {
        if weak.has(&Weakness::Pending) {
            return Bounds { held: usize::MAX, unsent: usize::MAX, ready: CALLS };
        }
        Bounds { held: HELD, unsent: UNSENT, ready: 1 }
    }
}

/// The connection between a script and its caller.
#[derive(Debug)]
pub(super) struct Talk {
    pub(super) bounds: Bounds,
    /// The calls of the script, by number.
    pub(super) asking: UnboundedSender<(u64, Json)>,
    /// The answers. Closed when the caller no longer waits for the script.
    pub(super) answers: Receiver<(u64, std::result::Result<Json, String>)>,
}

/// The state of a process after a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It can run the next one.
    Reusable,
    /// It was killed, or is no longer trusted.
    Over,
}

/// A process of scripts. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    line: Line,
    scripts: u32,
}

impl Worker {
    /// Starts a process. Call this within the engine's runtime.
    pub(super) async fn start(spec: Spec) -> Result<Self> {
        Ok(Worker { line: Line::start(spec).await?, scripts: 0 })
    }

    /// Returns how many scripts it has run.
    pub(super) fn scripts(&self) -> u32 {
        self.scripts
    }

    pub(super) fn has_ended(&self) -> bool {
        self.line.has_ended()
    }

    /// Runs a script. Kills the process if the script does not end within its time.
    pub(super) async fn run(&mut self, message: &ToScript, talk: &mut Talk) -> Result<(Ran, End)> {
        self.scripts += 1;
        let limits = match message {
            ToScript::Start(start) => start.limits,
            _ => {
                Limits { time_ms: u64::try_from(CHECK.as_millis()).unwrap_or(u64::MAX), ..Limits::default() }
            }
        };
        let mut run = Run::default();
        self.line.queue(message).map_err(|error| {
            Error::new(Code::TooLarge, "the script, its arguments and its libraries are too long")
                .with_source(error)
        })?;
        let time = Duration::from_millis(limits.time_ms) + GRACE;
        let (result, end) = match tokio::time::timeout(time, self.exchange(&mut run, talk)).await {
            Ok(Ok(result)) => (result, End::Reusable),
            Ok(Err(Broken::Gone)) => (Err(ended_failure(&limits)), End::Over),
            Ok(Err(Broken::Full)) => (Err(full_failure()), End::Over),
            Ok(Err(Broken::Unwanted)) => {
                return Err(Error::new(Code::Unavailable, "nobody waits for the script anymore"));
            }
            Err(_) => (Err(Failure::limited(&limits, Limit::Time)), End::Over),
        };
        let limit = result.as_ref().err().and_then(|failure| failure.limit);
        // A process that was short of memory may keep much of it.
        let end = if limit == Some(Limit::Memory) { End::Over } else { end };
        Ok((Ran::new(result, run.logs), end))
    }

    async fn exchange(&mut self, run: &mut Run, talk: &mut Talk) -> std::result::Result<Outcome, Broken> {
        let line = &mut self.line;
        loop {
            while let Some(message) = line.take::<FromScript>()? {
                match message {
                    FromScript::Done(done) => return Ok(done),
                    FromScript::Log(line) => run.log(line)?,
                    FromScript::Timer(_) => {}
                    FromScript::Call { id, call } => {
                        run.hold(id, call.text().len(), talk.bounds.held)?;
                        talk.asking.send((id, call)).map_err(|_| Broken::Unwanted)?;
                    }
                }
            }
            let may_answer = line.queued() < talk.bounds.unsent;
            tokio::select! {
                turn = line.turn() => turn?,
                answer = talk.answers.recv(), if may_answer => {
                    let (id, result) = answer.ok_or(Broken::Unwanted)?;
                    run.release(id);
                    if line.queue(&ToScript::Answer { id, result }).is_err() {
                        let result = Err("the answer of the host is too long".to_owned());
                        line.queue(&ToScript::Answer { id, result })?;
                    }
                }
            }
        }
    }
}

type Outcome = std::result::Result<Json, Failure>;

/// Why a script did not end properly.
enum Broken {
    /// Its process is gone, or has violated the protocol.
    Gone,
    /// Its pending calls hold too much.
    Full,
    /// Its caller no longer waits.
    Unwanted,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Broken::Gone
    }
}

/// The state of one run.
#[derive(Default)]
struct Run {
    logs: Vec<String>,
    /// The bytes of the log.
    bytes: usize,
    /// The sizes of the pending calls in bytes, by number.
    calls: HashMap<u64, usize>,
    /// The sum of the sizes.
    held: usize,
}

impl Run {
    /// Counts a call as pending.
    fn hold(&mut self, id: u64, size: usize, most: usize) -> std::result::Result<(), Broken> {
        // The engine never has more pending calls, and numbers them.
        if self.calls.len() >= CALLS || self.calls.insert(id, size).is_some() {
            return Err(Broken::Gone);
        }
        self.held += size;
        if self.held > most { Err(Broken::Full) } else { Ok(()) }
    }

    /// Counts a call as answered.
    fn release(&mut self, id: u64) {
        self.held -= self.calls.remove(&id).unwrap_or(0);
    }

    fn log(&mut self, line: String) -> std::result::Result<(), Broken> {
        self.bytes += line.len();
        // The engine stops earlier, and adds one line that says so.
        if self.logs.len() > LOG_LINES || self.bytes > 2 * LOG_BYTES {
            return Err(Broken::Gone);
        }
        self.logs.push(line);
        Ok(())
    }
}

/// Returns the failure for a process that ended by itself: an allocation outside the engine's own heap has failed, or it made
/// a system call that is not allowed.
fn ended_failure(limits: &Limits) -> Failure {
    let message = format!(
        "the process of the script ended: the script used more than its {} MiB of memory, or exceeded another limit of the \
         engine; keep less in memory at once",
        limits.memory >> 20
    );
    Failure { limit: Some(Limit::Memory), ..Failure::new(message) }
}

/// Returns the failure of a script whose pending calls hold too much.
fn full_failure() -> Failure {
    let message =
        format!("calls without an answer hold more than {} MiB: await some of them first", HELD >> 20);
    Failure { limit: Some(Limit::Memory), ..Failure::new(message) }
}
