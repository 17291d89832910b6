//! A process of a sandbox behind a Durable Object.

use std::time::Duration;

use serde::de::DeserializeOwned;
use worker::send::SendFuture;

use super::call::{self, Call};
use super::contract::{self, LARGEST_PIECE};
use super::object::{Answer, Refused, WITHIN, wrong_reply};
use super::sandbox::CloudflareSandbox;
use super::waiting::Waiting;
use koze_core::contract::MAX_SAFE_INTEGER;
use koze_core::error::{Code, Error, Result};
use koze_core::sandbox::process::{
    Chunk, Exit, Process, ProcessId, ProcessInfo, ProcessOutput, Program, Signal, Stream, check_size,
};
use koze_core::time::{Start, millis};

/// How long one call waits. A longer wait is several calls.
const TURN: Duration = Duration::from_secs(25);

/// A process of a sandbox behind a Durable Object. A clone is the same process.
#[derive(Debug, Clone)]
pub struct CloudflareProcess {
    sandbox: CloudflareSandbox,
    id: ProcessId,
}

/// Starts a process.
pub(super) async fn start(sandbox: &CloudflareSandbox, program: Program) -> Result<CloudflareProcess> {
    program.check()?;
    let started = sandbox.ask(call::start(&program.into(), WITHIN)).await?;
    Ok(CloudflareProcess { sandbox: sandbox.clone(), id: id("start", started.id)? })
}

/// Finds a process.
pub(super) async fn find(sandbox: &CloudflareSandbox, id: &ProcessId) -> Result<Option<CloudflareProcess>> {
    let input = contract::OneProcess { id: id.to_string() };
    match sandbox.ask_the_open(call::process(&input, WITHIN)).await {
        Ok(_) => Ok(Some(CloudflareProcess { sandbox: sandbox.clone(), id: id.clone() })),
        Err(Refused::Error(error)) if error.code == Code::NotFound => Ok(None),
        Err(Refused::Unopened) => Ok(None),
        Err(refused) => Err(refused.into()),
    }
}

/// Lists the processes.
pub(super) async fn list(sandbox: &CloudflareSandbox) -> Result<Vec<ProcessInfo>> {
    let all = match sandbox.ask_the_open(call::processes(&contract::Nothing {}, WITHIN)).await {
        Err(Refused::Unopened) => return Ok(Vec::new()),
        all => all?.processes,
    };
    let info = |info: contract::ProcessInfo| {
        let (program, terminal, label) = (info.program, info.terminal, info.label);
        let (id, exit) = (id("processes", info.id)?, exit(info.exit));
        Ok(ProcessInfo { id, program, terminal, exit, label })
    };
    all.into_iter().map(info).collect()
}

impl CloudflareProcess {
    /// Calls the object, if the sandbox is open.
    async fn ask<T: DeserializeOwned>(&self, call: Answer<Call<T>>) -> Result<T> {
        self.sandbox.ask_the_open(call).await.map_err(|refused| match refused {
            Refused::Unopened => Error::new(Code::NotFound, "the process ended with its sandbox"),
            refused => refused.into(),
        })
    }

    /// Repeats a call until there is an answer, as long as the caller waits.
    async fn wait_for<T, A: DeserializeOwned>(
        &self,
        wait: Duration,
        call: impl Fn(&Waiting, u32) -> Answer<Call<A>>,
        answer: impl Fn(A, bool) -> Option<Result<T>>,
    ) -> Result<T> {
        let start = Start::now();
        loop {
            let left = wait.saturating_sub(start.elapsed());
            let turn = left.min(TURN);
            let turn_ms = u32::try_from(millis(turn)).unwrap_or(u32::MAX);
            // Dropped together with the call, which tells the object that the caller no longer waits.
            let waiting = Waiting::new();
            if let Some(answer) = answer(self.ask(call(&waiting, turn_ms)).await?, left <= TURN) {
                return answer;
            }
        }
    }

    async fn read_some(
        &self,
        cursor: u64,
        limit: usize,
        wait: Duration,
        abandoned: Option<Signal>,
    ) -> Result<ProcessOutput> {
        if limit == 0 {
            return Err(Error::new(Code::InvalidInput, "a read must have a limit of at least 1 byte"));
        }
        if cursor > MAX_SAFE_INTEGER {
            return Err(Error::new(Code::InvalidInput, "the cursor lies beyond the output"));
        }
        let limit = u32::try_from(limit).unwrap_or(u32::MAX).min(LARGEST_PIECE);
        let read = |waiting: &Waiting, wait_ms: u32| {
            let (id, call) = (self.id.to_string(), self.sandbox.call_name());
            let abandoned_signal = abandoned.map(Signal::number);
            let input = contract::ReadProcess { id, cursor, limit, wait_ms, call, abandoned_signal };
            call::read_process(&input, waiting.function(), within(wait_ms))
        };
        self.wait_for(wait, read, |output: contract::ProcessOutput, last| {
            let nothing = output.next == cursor && output.exit.is_none();
            (last || !nothing).then(|| chunks(output))
        })
        .await
    }

    async fn wait_some(&self, timeout: Duration) -> Result<Option<Exit>> {
        let wait = |waiting: &Waiting, timeout_ms: u32| {
            let (id, call) = (self.id.to_string(), self.sandbox.call_name());
            let input = contract::WaitProcess { id, timeout_ms, call, abandoned_signal: None };
            call::wait_process(&input, waiting.function(), within(timeout_ms))
        };
        self.wait_for(timeout, wait, |ended: contract::Ended, last| {
            (last || ended.exit.is_some()).then(|| Ok(exit(ended.exit)))
        })
        .await
    }

    /// Waits in one call, so that the process never runs unattended.
    async fn attend(&self, timeout: Duration, abandoned: Signal) -> Result<Option<Exit>> {
        let input = contract::WaitProcess {
            id: self.id.to_string(),
            timeout_ms: u32::try_from(millis(timeout)).unwrap_or(u32::MAX),
            call: self.sandbox.call_name(),
            abandoned_signal: Some(abandoned.number()),
        };
        // Dropped with the call, which abandons the process.
        let waiting = Waiting::new();
        let wait = call::wait_process(&input, waiting.function(), within(input.timeout_ms));
        Ok(exit(self.ask(wait).await?.exit))
    }

    async fn write_some(&self, bytes: Vec<u8>, wait: Duration) -> Result<usize> {
        let start = Start::now();
        let mut taken = 0;
        loop {
            let left = wait.saturating_sub(start.elapsed());
            let wait_ms = u32::try_from(millis(left.min(TURN))).unwrap_or(u32::MAX);
            let piece = bytes[taken..].chunks(LARGEST_PIECE as usize).next().unwrap_or_default().to_vec();
            let (id, call) = (self.id.to_string(), self.sandbox.call_name());
            let input = contract::WriteProcess { id, bytes: piece.into(), wait_ms, call };
            let waiting = Waiting::new();
            match self.ask(call::write_process(&input, waiting.function(), within(wait_ms))).await {
                Ok(done) => taken += usize::try_from(done.taken).unwrap_or_default(),
                // It has ended, or closed its input, after it had read some.
                Err(error) if error.code == Code::InvalidInput && taken > 0 => return Ok(taken),
                Err(error) => return Err(error),
            }
            if taken >= bytes.len() || (left <= TURN && start.elapsed() >= wait) {
                return Ok(taken);
            }
        }
    }
}

impl Process for CloudflareProcess {
    fn id(&self) -> &ProcessId {
        &self.id
    }

    async fn write_stdin(&self, bytes: Vec<u8>, wait: Duration) -> Result<usize> {
        SendFuture::new(self.write_some(bytes, wait)).await
    }

    async fn close_stdin(&self) -> Result<()> {
        let input = contract::OneProcess { id: self.id.to_string() };
        let close = self.ask(call::close_process(&input, WITHIN));
        SendFuture::new(close).await.map(drop)
    }

    async fn read(&self, cursor: u64, limit: usize, wait: Duration) -> Result<ProcessOutput> {
        SendFuture::new(self.read_some(cursor, limit, wait, None)).await
    }

    async fn read_attending(
        &self,
        cursor: u64,
        limit: usize,
        wait: Duration,
        abandoned: Signal,
    ) -> Result<ProcessOutput> {
        SendFuture::new(self.read_some(cursor, limit, wait, Some(abandoned))).await
    }

    async fn signal(&self, signal: Signal) -> Result<()> {
        let input = contract::SignalProcess { id: self.id.to_string(), signal: signal.number() };
        let signal = self.ask(call::signal_process(&input, WITHIN));
        SendFuture::new(signal).await.map(drop)
    }

    async fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        check_size(rows, columns)?;
        let input = contract::ResizeProcess { id: self.id.to_string(), rows, columns };
        let resize = self.ask(call::resize_process(&input, WITHIN));
        SendFuture::new(resize).await.map(drop)
    }

    async fn wait(&self, timeout: Duration) -> Result<Option<Exit>> {
        SendFuture::new(self.wait_some(timeout)).await
    }

    /// Does not rely on being dropped: the container's side kills the process if this Worker is terminated.
    async fn supervise(&self, timeout: Duration) -> Result<Option<Exit>> {
        let exit = SendFuture::new(self.attend(timeout, Signal::Kill)).await?;
        if exit.is_none() {
            self.signal(Signal::Kill).await?;
        }
        Ok(exit)
    }
}

fn within(wait_ms: u32) -> Duration {
    WITHIN + Duration::from_millis(wait_ms.into())
}

fn exit(code: Option<i32>) -> Option<Exit> {
    code.map(|code| Exit { code })
}

fn id(method: &str, id: String) -> Result<ProcessId> {
    ProcessId::new(id).map_err(|_| wrong_reply(method, &"the ID of the process is not valid").into())
}

/// The parts of the output.
fn chunks(output: contract::ProcessOutput) -> Result<ProcessOutput> {
    let mut rest = &output.bytes[..];
    let mut chunks = Vec::with_capacity(output.chunks.len());
    for contract::Chunk { stream, length } in output.chunks {
        let part = rest.split_at_checked(length as usize);
        let (bytes, after) = part.ok_or_else(|| wrong_reply("read_process", &"bytes are missing"))?;
        let stream = match stream {
            contract::OutputStream::Stdout => Stream::Stdout,
            contract::OutputStream::Stderr => Stream::Stderr,
        };
        chunks.push(Chunk { stream, bytes: bytes.to_vec() });
        rest = after;
    }
    Ok(ProcessOutput { chunks, next: output.next, dropped: output.dropped, exit: exit(output.exit) })
}
