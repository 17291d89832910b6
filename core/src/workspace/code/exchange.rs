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

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Interrupted,
    InterruptedAgain,
    Killed,
}

/// Runs code in a driver that is at `position`, which follows what was read, also if the caller drops the future.
pub(super) async fn run<P: Process>(
    driver: &P,
    position: &mut Position,
    code: &str,
    timeout: Duration,
) -> Result<CodeRun> {
    let id = ProcessId::random().to_string();
    let settle = if position.settled { Duration::ZERO } else { SETTLE };
    let request = format!("{}\n", json!({ "id": id, "code": code, "settle": millis(settle) }));
    position.settled = false;
    let start = Start::now();
    let interrupt = SignalOnDrop::new(driver, Signal::Interrupt);
    let sent = send(driver, request.into_bytes(), timeout, start).await;
    interrupt.release();
    let mut answer = Answer::new(id);
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
                answer.take(chunk.stream, &chunk.bytes);
            }
            if answer.is_whole() {
                break None;
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
                         returned",
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
        Err(error) if error.code == Code::InvalidInput => return Err(super::context::ended()),
        Err(error) => return Err(error),
    };
    position.settled = phase == Phase::Running;
    Ok(answer.finish(phase, ended, timeout))
}

/// Writes a request. The driver reads while it runs nothing.
async fn send<P: Process>(driver: &P, bytes: Vec<u8>, timeout: Duration, start: Start) -> Result<()> {
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
    exit_code: i32,
    error: Option<CodeError>,
}

impl Answer {
    fn new(id: String) -> Self {
        let (streams, outputs) = ([Frames::default(), Frames::default()], Outputs::new());
        Answer { id, streams, outputs, begun: [false; 2], ended: [false; 2], exit_code: 0, error: None }
    }

    fn is_whole(&self) -> bool {
        self.ended == [true; 2]
    }

    /// Takes output of the driver. What precedes the answer belongs to earlier calls.
    fn take(&mut self, stream: Stream, bytes: &[u8]) {
        let index = usize::from(stream == Stream::Stderr);
        for part in self.streams[index].split(bytes) {
            match part {
                Part::Message(Message::Begin { id }) if id == self.id => self.begun[index] = true,
                Part::Message(Message::End { id, exit_code, error }) if id == self.id => {
                    self.ended[index] = true;
                    if let Some(code) = exit_code {
                        (self.exit_code, self.error) = (code, error);
                    }
                }
                _ if !self.begun[index] || self.ended[index] => {}
                Part::Raw(bytes) => self.outputs.print(stream, &bytes),
                Part::Message(Message::Stdout { text }) => {
                    self.outputs.print(Stream::Stdout, text.as_bytes());
                }
                Part::Message(Message::Stderr { text }) => {
                    self.outputs.print(Stream::Stderr, text.as_bytes());
                }
                Part::Message(Message::Display { mime, data }) => self.outputs.display(mime, data),
                Part::Message(Message::Result { text }) => self.outputs.result(&text),
                Part::Message(Message::Ready | Message::Begin { .. } | Message::End { .. }) => {}
            }
        }
    }

    fn finish(self, phase: Phase, ended: Option<Exit>, timeout: Duration) -> CodeRun {
        let outputs = self.outputs.finish();
        let late = format!("the code ran longer than {} ms", millis(timeout));
        let named = |name: &str, message: String| {
            let traceback = String::new();
            Some(CodeError { name: name.to_owned(), message, traceback })
        };
        let run = |exit_code, error, timed_out, survived| CodeRun {
            exit_code,
            outputs,
            error,
            timed_out,
            survived,
        };
        match (ended, phase) {
            // It has ended just in time.
            (None, phase) if phase == Phase::Running || self.error.is_none() => {
                run(self.exit_code, self.error, false, true)
            }
            (None, _) => {
                let traceback = self.error.map(|error| error.traceback).unwrap_or_default();
                let message = format!("{late}, and was interrupted");
                run(TIMED_OUT, Some(CodeError { name: "Timeout".into(), message, traceback }), true, true)
            }
            (Some(_), Phase::Killed) => {
                let message = format!("{late}, did not stop when it was interrupted, and was killed");
                run(TIMED_OUT, named("Timeout", message), true, false)
            }
            (Some(exit), _) => {
                let message = format!("the code ended its interpreter, with the exit code {}", exit.code);
                let error = if exit.code == 0 { None } else { named("Exit", message) };
                run(exit.code, error, phase != Phase::Running, false)
            }
        }
    }
}
