//! One request to a driver, and its answer.

use std::time::Duration;

use serde_json::json;

use super::frames::{Frames, Message, Part};
use super::known::Position;
use super::outputs::Outputs;
use super::{CodeError, CodeRun};
use crate::error::{Code, Error, Result};
use crate::sandbox::process::{Exit, Process, ProcessId, Signal, SignalOnDrop, Stream};
use crate::time::{Start, millis};

/// How many bytes one read takes at most.
const PIECE: usize = 256 << 10;
/// How long code may take to stop after an interrupt. It gets two, because interpreters miss one that comes just as they
/// begin to run code.
const GRACE: Duration = Duration::from_secs(1);
/// How long the output of a killed driver is waited for.
const REST: Duration = Duration::from_secs(10);
/// How long a driver ignores interrupts before it runs new code, if the last call may have sent one.
const SETTLE: Duration = Duration::from_millis(50);
/// The exit code after a timeout.
const TIMED_OUT: i32 = 124;
/// The exit code of a killed interpreter.
const KILLED: i32 = 137;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Interrupted,
    InterruptedAgain,
    Killed,
}

/// What follows a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The driver waits for other requests.
    Wait,
    /// Its interpreter ends, as it does after a program: it waits for timers and threads, calls exit handlers, and writes what
    /// is buffered. All that belongs to the run.
    End,
}

/// Runs code in a driver that is at `position`, which follows what was read, also if the caller drops the future.
pub(super) async fn run_code<P: Process>(
    driver: &P,
    position: &mut Position,
    code: &str,
    timeout: Duration,
    then: Then,
) -> Result<CodeRun> {
    let id = ProcessId::random().to_string();
    let settle = if position.settled { Duration::ZERO } else { SETTLE };
    let last = then == Then::End;
    let request = format!("{}\n", json!({ "id": id, "code": code, "settle": millis(settle), "last": last }));
    position.settled = false;
    let start = Start::now();
    let interrupt = SignalOnDrop::new(driver, Signal::Interrupt);
    let sent = send_request(driver, request.into_bytes(), timeout, start).await;
    interrupt.release();
    let mut answer = Answer::new(id, then);
    let mut phase = Phase::Running;
    let mut until = timeout + settle;
    let ended = match sent {
        Ok(()) => loop {
            let left = until.saturating_sub(start.elapsed());
            // If the caller is gone, only this signal interrupts its code.
            let abandoned = if phase == Phase::Running { Signal::Interrupt } else { Signal::Kill };
            let read = driver.read_attending(position.cursor, PIECE, left, abandoned).await?;
            position.cursor = read.next;
            for chunk in read.chunks {
                answer.take_output(chunk.stream, &chunk.bytes);
            }
            if answer.is_whole() {
                answer.whole_in.get_or_insert(phase);
                if then == Then::Wait {
                    break None;
                }
            }
            if let Some(exit) = read.exit {
                break Some(exit);
            }
            if start.elapsed() < until {
                continue;
            }
            let (signal, next, wait) = match phase {
                Phase::Running if !answer.begun[0] => {
                    let message = format!(
                        "the context was busy with an earlier call for {} ms: the code runs after it, and its output is not \
                         returned. To end both, restart the context",
                        millis(timeout)
                    );
                    return Err(Error::new(Code::Timeout, message));
                }
                Phase::Running => (Signal::Interrupt, Phase::Interrupted, GRACE),
                Phase::Interrupted => (Signal::Interrupt, Phase::InterruptedAgain, GRACE),
                Phase::InterruptedAgain => (Signal::Kill, Phase::Killed, REST),
                // Its end is not known, but nothing survives the signal.
                Phase::Killed => break Some(Exit { code: TIMED_OUT }),
            };
            driver.signal(signal).await?;
            phase = next;
            until = start.elapsed() + wait;
        },
        // It has ended, and no longer reads.
        Err(error) if error.code == Code::InvalidInput => return Err(super::context::ended_error()),
        Err(error) => return Err(error),
    };
    position.settled = phase == Phase::Running;
    Ok(answer.into_code_run(phase, ended, timeout))
}

/// Writes a request. The driver reads while it runs nothing.
async fn send_request<P: Process>(driver: &P, bytes: Vec<u8>, timeout: Duration, start: Start) -> Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        let left = timeout.saturating_sub(start.elapsed());
        let taken = driver.write_stdin(bytes[sent..].to_vec(), left).await?;
        sent += taken;
        if taken == 0 && left.is_zero() {
            // The rest of the line would be read as another request.
            driver.signal(Signal::Kill).await?;
            let message = "the interpreter did not read the code in time, so it was ended with its context";
            return Err(Error::new(Code::Timeout, message));
        }
    }
    Ok(())
}

/// The answer to a request.
struct Answer {
    id: String,
    streams: [Frames; 2],
    outputs: Outputs,
    begun: [bool; 2],
    ended: [bool; 2],
    /// How far the run was when the code had ended.
    whole_in: Option<Phase>,
    then: Then,
    exit_code: i32,
    error: Option<CodeError>,
}

impl Answer {
    fn new(id: String, then: Then) -> Self {
        Answer {
            id,
            streams: [Frames::default(), Frames::default()],
            outputs: Outputs::new(),
            begun: [false; 2],
            ended: [false; 2],
            whole_in: None,
            then,
            exit_code: 0,
            error: None,
        }
    }

    fn is_whole(&self) -> bool {
        self.ended == [true; 2]
    }

    /// Takes output of the driver. What precedes the answer belongs to earlier calls.
    fn take_output(&mut self, stream: Stream, bytes: &[u8]) {
        let index = usize::from(stream == Stream::Stderr);
        for part in self.streams[index].split_parts(bytes) {
            match part {
                Part::Message(Message::Begin { id }) if id == self.id => self.begun[index] = true,
                Part::Message(Message::End { id, exit_code, error }) if id == self.id => {
                    self.ended[index] = true;
                    if let Some(code) = exit_code {
                        (self.exit_code, self.error) = (code, error);
                    }
                }
                _ if !self.begun[index] || (self.ended[index] && self.then == Then::Wait) => {}
                Part::Raw(bytes) => self.outputs.push_bytes(stream, &bytes),
                Part::Message(Message::Stdout { text }) => {
                    self.outputs.push_bytes(Stream::Stdout, text.as_bytes());
                }
                Part::Message(Message::Stderr { text }) => {
                    self.outputs.push_bytes(Stream::Stderr, text.as_bytes());
                }
                Part::Message(Message::Display { mime, data }) => self.outputs.push_display(mime, data),
                Part::Message(Message::Result { text }) => self.outputs.push_result(&text),
                Part::Message(Message::Ready | Message::Begin { .. } | Message::End { .. }) => {}
            }
        }
    }

    /// Returns the result: by how the interpreter ended, or `None` if it has not, and how far the run was.
    fn into_code_run(self, phase: Phase, ended: Option<Exit>, timeout: Duration) -> CodeRun {
        let late = format!("the code ran longer than {} ms", millis(timeout));
        let killed =
            "did not stop when it was interrupted, and was killed: what it had not written yet is lost";
        let code = ended.map_or(0, |exit| exit.code);
        // The code had ended by itself before the timeout, or just then.
        let is_in_time = |at| {
            phase == Phase::Running
                || (self.then == Then::Wait && (at == Phase::Running || self.error.is_none()))
        };
        let verdict = match self.whole_in {
            None if phase == Phase::Killed => Verdict::from_timeout(format!("{late}, {killed}"), None, false),
            None => Verdict { timed_out: phase != Phase::Running, ..Verdict::from_exit(code, 0, None) },
            Some(at) if is_in_time(at) => {
                Verdict { survived: true, ..Verdict::from_exit(code, self.exit_code, self.error) }
            }
            Some(at) => {
                let how = if phase == Phase::Killed { killed } else { "was interrupted" };
                let message = match at {
                    Phase::Running => format!(
                        "{late}: its last statement had ended, but timers, servers, threads or other work that it had started \
                         had not. It {how}"
                    ),
                    _ if phase == Phase::Killed => format!("{late}, {how}"),
                    _ => format!("{late}, and {how}"),
                };
                Verdict::from_timeout(message, self.error, phase != Phase::Killed)
            }
        };
        let Verdict { exit_code, mut error, timed_out, survived } = verdict;
        if let (Then::Wait, Some(error)) = (self.then, &mut error)
            && (timed_out || !survived)
        {
            error.message.push_str(if survived {
                ". The variables of the context are kept"
            } else {
                ". The context has ended, and its variables are lost: restart it, which keeps its ID"
            });
        }
        CodeRun { exit_code, outputs: self.outputs.finish(), error, timed_out, survived }
    }
}

/// How a run ended.
struct Verdict {
    exit_code: i32,
    error: Option<CodeError>,
    timed_out: bool,
    survived: bool,
}

impl Verdict {
    /// A timeout, with the place where the code was.
    fn from_timeout(message: String, interrupted: Option<CodeError>, survived: bool) -> Self {
        let traceback = interrupted.map(|error| error.traceback).unwrap_or_default();
        let error = CodeError { name: "Timeout".into(), message, traceback };
        Verdict { exit_code: TIMED_OUT, error: Some(error), timed_out: true, survived }
    }

    /// The end of code, with its own exit code and error, or that of its interpreter.
    fn from_exit(interpreter: i32, exit_code: i32, error: Option<CodeError>) -> Self {
        let exit_code = if interpreter == 0 { exit_code } else { interpreter };
        let error = error.or_else(|| {
            // The sandbox says on standard error if a limit was the reason.
            let how = if interpreter == KILLED {
                "was killed: see standard error"
            } else {
                "was ended by the code"
            };
            let message = format!("the interpreter {how}, with the exit code {exit_code}");
            (interpreter != 0).then(|| CodeError { name: "Exit".into(), message, traceback: String::new() })
        });
        Verdict { exit_code, error, timed_out: false, survived: false }
    }
}
