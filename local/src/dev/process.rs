//! The operations of the contract that are about processes.

use std::time::Duration;

use koze_core::contract::{
    Chunk, Ended, LARGEST_PIECE, OneProcess, OutputStream, ProcessInfo, ProcessOutput, Processes,
    ReadProcess, ResizeProcess, SignalProcess, Start, Started, Taken, WaitProcess,
};
use koze_core::sandbox::Sandbox;
use koze_core::sandbox::process::{
    self, Overflow, Process, ProcessId, Program, Signal, SignalOnDrop, Stdio, Stream,
};
use koze_protocol::operation::framed;
use serde_bytes::ByteBuf;

use super::frame::Answer;
use super::reply::{invalid_input, parse_input, to_answer, to_empty_answer, to_failure};
use crate::{LocalProcess, LocalSandbox};
use koze_core::contract::Failure;
use koze_core::error::{Code, Error};

/// Calls one of them.
pub(super) async fn call_process(
    sandbox: &LocalSandbox,
    operation: &str,
    input: &[u8],
    bytes: &[u8],
) -> Result<Answer, Failure> {
    match operation {
        "start" => start_process(sandbox, parse_input(input)?).await,
        "processes" => {
            let all = sandbox.processes().await.map_err(to_failure)?;
            to_answer(&Processes { processes: all.into_iter().map(to_info).collect() })
        }
        "process" => {
            let OneProcess { id } = parse_input(input)?;
            let all = sandbox.processes().await.map_err(to_failure)?;
            let one = all.into_iter().find(|info| info.id.as_str() == id).ok_or_else(not_found)?;
            to_answer(&to_info(one))
        }
        "read_process" => read_process(sandbox, parse_input(input)?).await,
        "write_process" => write_process(sandbox, parse_input(input)?, bytes).await,
        "close_process" => {
            let OneProcess { id } = parse_input(input)?;
            to_empty_answer(find_process(sandbox, id).await?.close_stdin().await)
        }
        "signal_process" => {
            let SignalProcess { id, signal } = parse_input(input)?;
            let process = find_process(sandbox, id).await?;
            to_empty_answer(process.signal(known_signal(signal)?).await)
        }
        "resize_process" => {
            let ResizeProcess { id, rows, columns } = parse_input(input)?;
            to_empty_answer(find_process(sandbox, id).await?.resize(rows, columns).await)
        }
        _ => {
            let WaitProcess { id, timeout_ms, abandoned_signal, .. } = parse_input(input)?;
            let process = find_process(sandbox, id).await?;
            let signal = signal_on_drop(&process, abandoned_signal)?;
            let exit = process.wait(to_duration(timeout_ms)).await;
            release_signal(signal);
            to_answer(&Ended { exit: exit.map_err(to_failure)?.map(|exit| exit.code) })
        }
    }
}

async fn start_process(sandbox: &LocalSandbox, input: Start) -> Result<Answer, Failure> {
    let stdio = match input.terminal {
        Some(size) => Stdio::Terminal { rows: size.rows, columns: size.columns },
        None => Stdio::Pipes,
    };
    let program = Program {
        argv: input.argv,
        working_dir: input.working_dir,
        env: input.env,
        stdio,
        buffer: input.buffer as usize,
        overflow: if input.drop_oldest { Overflow::DropOldest } else { Overflow::Block },
        label: input.label,
        attended: input.attend_within_ms.is_some(),
    };
    let process = sandbox.start(program).await.map_err(to_failure)?;
    to_answer(&Started { id: process.id().to_string() })
}

async fn read_process(sandbox: &LocalSandbox, input: ReadProcess) -> Result<Answer, Failure> {
    let process = find_process(sandbox, input.id).await?;
    let limit = input.limit.min(LARGEST_PIECE) as usize;
    let signal = signal_on_drop(&process, input.abandoned_signal)?;
    let output = process.read(input.cursor, limit, to_duration(input.wait_ms)).await;
    release_signal(signal);
    let output = output.map_err(to_failure)?;
    let chunk = |chunk: &process::Chunk| Chunk {
        stream: match chunk.stream {
            Stream::Stdout => OutputStream::Stdout,
            Stream::Stderr => OutputStream::Stderr,
        },
        // No longer than the limit.
        length: u32::try_from(chunk.bytes.len()).unwrap_or(u32::MAX),
    };
    let value = ProcessOutput {
        bytes: ByteBuf::new(),
        chunks: output.chunks.iter().map(chunk).collect(),
        next: output.next,
        dropped: output.dropped,
        exit: output.exit.map(|exit| exit.code),
    };
    let bytes = output.chunks.into_iter().flat_map(|chunk| chunk.bytes).collect();
    Ok(Answer { bytes: vec![("bytes", bytes)], ..to_answer(&value)? })
}

async fn write_process(
    sandbox: &LocalSandbox,
    input: framed::WriteProcess,
    bytes: &[u8],
) -> Result<Answer, Failure> {
    if bytes.len() > LARGEST_PIECE as usize {
        return Err(invalid_input(format!(
            "one write takes at most {LARGEST_PIECE} bytes: write the rest after it"
        )));
    }
    let process = find_process(sandbox, input.id).await?;
    let taken = process.write_stdin(bytes.to_vec(), to_duration(input.wait_ms)).await.map_err(to_failure)?;
    to_answer(&Taken { taken: taken as u64 })
}

/// Returns what sends the signal if the request is canceled, as it is when its caller is gone.
fn signal_on_drop(
    process: &LocalProcess,
    signal: Option<u8>,
) -> Result<Option<SignalOnDrop<LocalProcess>>, Failure> {
    signal.map(|number| Ok(SignalOnDrop::new(process, known_signal(number)?))).transpose()
}

/// Sends no signal: there is an answer.
fn release_signal(signal: Option<SignalOnDrop<LocalProcess>>) {
    if let Some(signal) = signal {
        signal.release();
    }
}

fn known_signal(number: u8) -> Result<Signal, Failure> {
    Signal::from_number(number).ok_or_else(|| invalid_input(format!("there is no signal {number}")))
}

async fn find_process(sandbox: &LocalSandbox, id: String) -> Result<LocalProcess, Failure> {
    let Ok(id) = ProcessId::new(id) else { return Err(not_found()) };
    sandbox.process(&id).await.map_err(to_failure)?.ok_or_else(not_found)
}

fn to_info(info: process::ProcessInfo) -> ProcessInfo {
    let exit = info.exit.map(|exit| exit.code);
    let process::ProcessInfo { id, program, terminal, label, .. } = info;
    ProcessInfo { id: id.to_string(), program, terminal, exit, label }
}

fn to_duration(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

fn not_found() -> Failure {
    to_failure(Error::new(
        Code::NotFound,
        "the process does not exist: it ended with its sandbox, or it was discarded after its end",
    ))
}
