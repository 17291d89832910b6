//! A process of a sandbox in a container.

use std::sync::Arc;
use std::time::Duration;

use koze_core::error::{Code, Error, Result};
use koze_core::sandbox::process::{
    Chunk, Exit, Process, ProcessId, ProcessInfo, ProcessOutput, Program, Signal, Stream, check_size,
};
use koze_core::time::millis;
use koze_guest::request::{Output, Request};
use koze_protocol::operation::{self, Ended, OneProcess, Started, Taken, framed};
use serde::de::{DeserializeOwned, IgnoredAny};

use super::inner::Running;
use super::{EngineSandbox, unexpected_error};
use crate::guest::Answered;
use crate::runtime;

/// The most that one read returns, in bytes.
const MAX_READ: usize = 8 << 20;

/// A process of a sandbox in a container. A clone is the same process.
#[derive(Debug, Clone)]
pub struct EngineProcess {
    sandbox: EngineSandbox,
    id: ProcessId,
}

/// Starts a process.
pub(super) async fn start(sandbox: &EngineSandbox, program: Program) -> Result<EngineProcess> {
    program.check()?;
    let _using = sandbox.0.using();
    let running = sandbox.wake().await?;
    let refused_before = running.network.refusals.count();
    let program = Program { env: running.network.environment(program.env), ..program };
    let started = sandbox.ask::<Started>(Request::Start(program.into())).await?;
    let id = parse_id(started.result.id)?;
    running.add_process(id.clone(), refused_before);
    Ok(EngineProcess { sandbox: sandbox.clone(), id })
}

/// Finds a process. Starts nothing.
pub(super) async fn find(sandbox: &EngineSandbox, id: &ProcessId) -> Result<Option<EngineProcess>> {
    let process = EngineProcess { sandbox: sandbox.clone(), id: id.clone() };
    match process.ask::<IgnoredAny>(Request::Process(process.one())).await {
        Ok(_) => Ok(Some(process)),
        Err(error) if error.code == Code::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lists the processes. Starts nothing.
pub(super) async fn list(sandbox: &EngineSandbox) -> Result<Vec<ProcessInfo>> {
    let Some(running) = awake(sandbox).await? else { return Ok(Vec::new()) };
    let listed = running.connection.call(&Request::Processes {})?.finish::<IgnoredAny>().await?;
    let all: Vec<operation::ProcessInfo> =
        serde_json::from_slice(&listed.out).map_err(|_| unexpected_error())?;
    let convert = |info: operation::ProcessInfo| {
        let operation::ProcessInfo { id, program, terminal, exit, label } = info;
        Ok(ProcessInfo { id: parse_id(id)?, program, terminal, exit: to_exit(exit), label })
    };
    all.into_iter().map(convert).collect()
}

async fn awake(sandbox: &EngineSandbox) -> Result<Option<Arc<Running>>> {
    let inner = Arc::clone(&sandbox.0);
    runtime::run_to_completion(async move { inner.awake().await }).await
}

impl EngineProcess {
    fn one(&self) -> OneProcess {
        OneProcess { id: self.id.to_string() }
    }

    /// Makes a call with input, if the sandbox runs.
    async fn ask_with<T: DeserializeOwned>(
        &self,
        request: Request,
        input: Option<&[u8]>,
    ) -> Result<Answered<T>> {
        let gone = || Error::new(Code::NotFound, "the process ended with its sandbox");
        let _using = self.sandbox.0.using();
        let running = awake(&self.sandbox).await?.ok_or_else(gone)?;
        let asked = async {
            let mut call = running.connection.call(&request)?;
            if let Some(input) = input
                && call.write(input).await?
            {
                call.end();
            }
            call.finish().await
        };
        match asked.await {
            // It ended with the container.
            Err(error) if error.code == Code::Unavailable && running.connection.is_closed() => {
                Err(gone().with_source(error))
            }
            answered => answered,
        }
    }

    async fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<Answered<T>> {
        self.ask_with(request, None).await
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
        let request = Request::ReadProcess(operation::ReadProcess {
            id: self.id.to_string(),
            cursor,
            limit: u32::try_from(limit.min(MAX_READ)).unwrap_or(u32::MAX),
            wait_ms: to_ms(wait),
            call: None,
            abandoned_signal: abandoned.map(Signal::number),
        });
        let Answered { result, out, .. } = self.ask::<Output>(request).await?;
        let mut output = split_output(result, &out)?;
        if let Some(exit) = &output.exit
            && let Some(note) =
                self.sandbox.0.running().and_then(|running| running.take_note(&self.id, exit.code))
        {
            let bytes = format!("\nkoze: {note}\n").into_bytes();
            output.chunks.push(Chunk { stream: Stream::Stderr, bytes });
        }
        Ok(output)
    }

    async fn wait_some(&self, timeout: Duration, abandoned: Option<Signal>) -> Result<Option<Exit>> {
        let request = Request::WaitProcess(operation::WaitProcess {
            id: self.id.to_string(),
            timeout_ms: to_ms(timeout),
            call: None,
            abandoned_signal: abandoned.map(Signal::number),
        });
        Ok(to_exit(self.ask::<Ended>(request).await?.result.exit))
    }
}

impl Process for EngineProcess {
    fn id(&self) -> &ProcessId {
        &self.id
    }

    async fn write_stdin(&self, bytes: Vec<u8>, wait: Duration) -> Result<usize> {
        let request =
            Request::WriteProcess(framed::WriteProcess { id: self.id.to_string(), wait_ms: to_ms(wait) });
        let taken = self.ask_with::<Taken>(request, Some(&bytes)).await?.result.taken;
        Ok(usize::try_from(taken).unwrap_or(bytes.len()).min(bytes.len()))
    }

    async fn close_stdin(&self) -> Result<()> {
        self.ask::<IgnoredAny>(Request::CloseProcess(self.one())).await.map(drop)
    }

    async fn read(&self, cursor: u64, limit: usize, wait: Duration) -> Result<ProcessOutput> {
        self.read_some(cursor, limit, wait, None).await
    }

    async fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.id.to_string();
        let request = Request::SignalProcess(operation::SignalProcess { id, signal: signal.number() });
        self.ask::<IgnoredAny>(request).await.map(drop)
    }

    async fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        check_size(rows, columns)?;
        let request =
            Request::ResizeProcess(operation::ResizeProcess { id: self.id.to_string(), rows, columns });
        self.ask::<IgnoredAny>(request).await.map(drop)
    }

    async fn wait(&self, timeout: Duration) -> Result<Option<Exit>> {
        self.wait_some(timeout, None).await
    }

    /// Does not rely on being dropped: the guest kills the process if this program ends.
    async fn supervise(&self, timeout: Duration) -> Result<Option<Exit>> {
        let exit = self.wait_some(timeout, Some(Signal::Kill)).await?;
        if exit.is_none() {
            self.signal(Signal::Kill).await?;
        }
        Ok(exit)
    }

    async fn read_attending(
        &self,
        cursor: u64,
        limit: usize,
        wait: Duration,
        abandoned: Signal,
    ) -> Result<ProcessOutput> {
        self.read_some(cursor, limit, wait, Some(abandoned)).await
    }
}

fn to_ms(time: Duration) -> u32 {
    u32::try_from(millis(time)).unwrap_or(u32::MAX)
}

fn to_exit(code: Option<i32>) -> Option<Exit> {
    code.map(|code| Exit { code })
}

fn parse_id(id: String) -> Result<ProcessId> {
    ProcessId::new(id).map_err(|_| unexpected_error())
}

/// Splits the bytes of a read into the parts that its answer lists.
fn split_output(output: Output, bytes: &[u8]) -> Result<ProcessOutput> {
    let mut rest = bytes;
    let mut chunks = Vec::with_capacity(output.chunks.len().min(bytes.len()));
    for (stream, length) in output.chunks {
        let part = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let (part, after) = part.ok_or_else(unexpected_error)?;
        let stream = if stream == 1 { Stream::Stdout } else { Stream::Stderr };
        chunks.push(Chunk { stream, bytes: part.to_vec() });
        rest = after;
    }
    Ok(ProcessOutput { chunks, next: output.next, dropped: output.dropped, exit: to_exit(output.exit) })
}
