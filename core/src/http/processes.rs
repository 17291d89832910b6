//! The routes for the processes of a sandbox.

use std::time::Duration;

use super::body::{Done, ProcessEntry, ProcessList, SendSignal, StartProcess, TerminalSize, Written};
use super::events;
use super::request::{Body, Refusal, Request, Response, ok, with_status};
use crate::error::{Code, Error, Result};
use crate::files::existing;
use crate::path::{HOME, absolute};
use crate::provider::Provider;
use crate::sandbox::Sandbox;
use crate::sandbox::process::{Overflow, Process, ProcessId, ProcessInfo, Program, Stdio};
use crate::session::Session;
use crate::shell::check_argv;

/// How much output is kept, in bytes, if the program does not wait for readers.
const KEPT: usize = 1 << 20;
/// How long a process may take to read its input.
const INPUT_TIME: Duration = Duration::from_secs(10);
/// How much is written to its input at once, in bytes.
const PIECE: usize = 256 << 10;

/// Answers a request below `/processes`. None of them creates a sandbox.
pub(super) async fn answer_request<P: Provider>(
    session: &Session<P>,
    name: &str,
    (parts, method): (&[&str], &str),
    request: &Request,
) -> std::result::Result<Response, Refusal> {
    match (parts, method) {
        ([], "GET") => Ok(ok(&list(&existing(session, name).await?).await?)),
        ([], "POST") => {
            let program = to_program(request.json()?)?;
            let sandbox = existing(session, name).await?;
            Ok(with_status(201, &start(&sandbox, program).await?))
        }
        ([], _) => Err(Refusal::Method("GET, POST")),
        ([id], "GET") => {
            let info = find_info(&existing(session, name).await?, id).await?;
            Ok(ok(&ProcessEntry::from(info)))
        }
        ([id, "events"], "GET") => {
            let since = since(request)?;
            let follow = request.flag("follow", true)?;
            let process = find(&existing(session, name).await?, id).await?;
            let events = events::stream_output(process, since, follow).await?;
            Ok(Response { status: 200, allow: None, body: Body::Events(events) })
        }
        ([_] | [_, "events"], _) => Err(Refusal::Method("GET")),
        ([id, "stdin"], "POST") => {
            let close = request.flag("close", false)?;
            let process = find(&existing(session, name).await?, id).await?;
            Ok(ok(&write(&process, &request.body, close).await?))
        }
        ([id, "signal"], "POST") => {
            let SendSignal { signal } = request.json()?;
            find(&existing(session, name).await?, id).await?.signal(signal.into()).await?;
            Ok(ok(&Done::default()))
        }
        ([id, "resize"], "POST") => {
            let TerminalSize { rows, columns } = request.json()?;
            find(&existing(session, name).await?, id).await?.resize(rows, columns).await?;
            Ok(ok(&Done::default()))
        }
        ([_, "stdin" | "signal" | "resize"], _) => Err(Refusal::Method("POST")),
        _ => Err(Refusal::NoRoute),
    }
}

async fn list<S: Sandbox>(sandbox: &S) -> Result<ProcessList> {
    let infos = sandbox.processes().await?;
    Ok(ProcessList { processes: infos.into_iter().map(ProcessEntry::from).collect() })
}

fn to_program(request: StartProcess) -> Result<Program> {
    let StartProcess { argv, env, working_dir, terminal, wait_for_readers, label } = request;
    check_argv(&argv)?;
    let working_dir = absolute(working_dir.as_deref().unwrap_or(HOME))?;
    let mut program = Program::new(argv, working_dir);
    program.env = env.into_iter().collect();
    program.label = label;
    if let Some(TerminalSize { rows, columns }) = terminal {
        program.stdio = Stdio::Terminal { rows, columns };
    }
    if !wait_for_readers {
        program.overflow = Overflow::DropOldest;
        program.buffer = KEPT;
    }
    program.check()?;
    Ok(program)
}

async fn start<S: Sandbox>(sandbox: &S, program: Program) -> Result<ProcessEntry> {
    let (name, label) = (program.argv[0].clone(), program.label.clone());
    let terminal = matches!(program.stdio, Stdio::Terminal { .. });
    let process = sandbox.start(program).await?;
    Ok(ProcessEntry { id: process.id().to_string(), program: name, label, terminal, exit_code: None })
}

async fn find_info<S: Sandbox>(sandbox: &S, id: &str) -> Result<ProcessInfo> {
    let id = ProcessId::new(id)?;
    let infos = sandbox.processes().await?;
    infos.into_iter().find(|info| info.id == id).ok_or_else(|| no_process(&id))
}

async fn find<S: Sandbox>(sandbox: &S, id: &str) -> Result<S::Process> {
    let id = ProcessId::new(id)?;
    sandbox.process(&id).await?.ok_or_else(|| no_process(&id))
}

fn no_process(id: &ProcessId) -> Error {
    let message = format!(
        "there is no process `{id}` in this sandbox: it ended with the sandbox, or long ago. `GET` of `processes` lists those that exist"
    );
    Error::new(Code::NotFound, message)
}

/// Returns where the events begin. A client that connects again sends the ID of the last event.
fn since(request: &Request) -> Result<u64> {
    let (name, text) = match (&request.last_event_id, request.parameter("since")) {
        (Some(id), _) => ("Last-Event-ID", id.as_str()),
        (None, Some(since)) => ("since", since),
        (None, None) => return Ok(0),
    };
    text.parse().map_err(|_| {
        Error::new(Code::InvalidInput, format!("`{name}` must be the ID of an event of this process, or 0"))
    })
}

/// Writes as many bytes as the process reads in time.
async fn write<P: Process>(process: &P, bytes: &[u8], close: bool) -> Result<Written> {
    let mut written = 0;
    while written < bytes.len() {
        let piece = &bytes[written..bytes.len().min(written + PIECE)];
        match process.write_stdin(piece.to_vec(), INPUT_TIME).await {
            Ok(0) => break,
            Ok(taken) => written += taken,
            // It has ended, or closed its input, after it had read some.
            Err(error) if error.code == Code::InvalidInput && written > 0 => break,
            Err(error) => return Err(error),
        }
    }
    if close && written == bytes.len() {
        process.close_stdin().await?;
    }
    Ok(Written { written })
}
