//! Starts processes.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use koze_guest::channel::Received;
use koze_guest::message::{Answer, Request};
use tokio::sync::oneshot;

use super::ends::{Input, Source};
use super::output;
use super::record::{Record, STDERR, STDOUT};
use crate::engine::engine;
use crate::errors::{convert_fault, unexpected_answer};
use crate::sandbox::judgement::Before;
use crate::sandbox::running::Running;
use koze_core::error::{Code, Error, Result};
use koze_core::sandbox::process::{Overflow, ProcessId, Program, Stdio};

/// The value of `TERM` for programs on a terminal.
const TERM: (&str, &str) = ("TERM", "xterm-256color");

/// The standard streams of a process: the host's ends and its own.
struct Streams {
    input: Input,
    sources: Vec<Source>,
    terminal: Option<Arc<OwnedFd>>,
    inside: Vec<OwnedFd>,
}

/// Starts a process. Call this on the engine, and run it to completion: the room of an unknown process would never be
/// released.
pub(super) async fn start_process(
    running: &Arc<Running>,
    program: Program,
    env: Vec<(String, String)>,
) -> Result<Arc<Record>> {
    program.check()?;
    let processes = &running.processes;
    let _one = processes.starting.lock().await;
    for forgotten in processes.roster().admit(program.buffer).map_err(convert_fault)? {
        forgotten.forget();
    }
    let Streams { input, sources, terminal, inside } = match program.stdio {
        Stdio::Pipes => create_pipes(running)?,
        Stdio::Terminal { rows, columns } => open_terminal(running, rows, columns).await?,
    };
    let name = program.argv.first().cloned().unwrap_or_default();
    let label = program.label.clone();
    let drop_oldest = program.overflow == Overflow::DropOldest;
    let buffer = program.buffer;
    let has_terminal = terminal.is_some();
    let Started { ends, ended, judged_before } =
        request_start(running, program, env, has_terminal, &inside).await?;
    let record = Record::new(
        ProcessId::random(),
        (name, label),
        ends,
        terminal,
        (buffer, drop_oldest),
        input,
        sources.len(),
    );
    let record = Arc::new(record);
    processes.roster().insert(record.id.to_string(), Arc::clone(&record));
    let engine = engine()?;
    for source in sources {
        engine.spawn(output::follow_stream(Arc::clone(&record), source, Arc::downgrade(running)));
    }
    engine.spawn(output::await_end(Arc::clone(&record), ended, Arc::downgrade(running), judged_before));
    Ok(record)
}

/// A program that the guest has started.
pub(super) struct Started {
    /// The call number with which the guest reports its end.
    pub(super) ends: u64,
    /// The report of its end.
    pub(super) ended: oneshot::Receiver<Received<Answer>>,
    pub(super) judged_before: Before,
}

/// Lets the guest start a program on its ends of the standard streams.
pub(super) async fn request_start(
    running: &Running,
    program: Program,
    env: Vec<(String, String)>,
    has_terminal: bool,
    inside: &[OwnedFd],
) -> Result<Started> {
    let mut all = Vec::new();
    if has_terminal {
        all.push(to_owned_pair(TERM));
    }
    all.extend(env);
    let ends = running.number();
    let judged_before = running.judgements.so_far();
    let ended = running.expect(ends)?;
    let request = Request::Start {
        argv: program.argv,
        cwd: program.working_dir,
        env: all,
        terminal: has_terminal,
        ends,
    };
    let inside: Vec<_> = inside.iter().map(AsFd::as_fd).collect();
    if let Err(error) = running.call_with(&request, &inside).await {
        running.expect_no_more(ends);
        return Err(error);
    }
    Ok(Started { ends, ended, judged_before })
}

fn to_owned_pair((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn create_pipes(running: &Running) -> Result<Streams> {
    let open = || -> std::io::Result<Streams> {
        let (stdin, ours) = running.pipe()?;
        let (out, stdout) = running.pipe()?;
        let (err, stderr) = running.pipe()?;
        let sources = vec![Source::new(STDOUT, Arc::new(out))?, Source::new(STDERR, Arc::new(err))?];
        let inside = vec![stdin, stdout, stderr];
        Ok(Streams { input: Input::new(ours)?, sources, terminal: None, inside })
    };
    open().map_err(|error| no_stream(&error))
}

/// Opens a terminal inside the sandbox, and returns its outer and its inner side. It is never the controlling terminal of
/// this process.
pub(super) async fn request_terminal(running: &Running, rows: u16, columns: u16) -> Result<[OwnedFd; 2]> {
    let opened = running.call(&Request::Terminal { rows, columns }).await?;
    match (opened.message, <[OwnedFd; 2]>::try_from(opened.descriptors)) {
        (Answer::Terminal, Ok(sides)) => Ok(sides),
        _ => Err(unexpected_answer()),
    }
}

async fn open_terminal(running: &Running, rows: u16, columns: u16) -> Result<Streams> {
    let [outside, inside] = request_terminal(running, rows, columns).await?;
    let open = || -> std::io::Result<Streams> {
        // A descriptor can be registered only once.
        let input = Input::new(outside.try_clone()?)?;
        let outside = Arc::new(outside);
        let sources = vec![Source::new(STDOUT, Arc::clone(&outside))?];
        let inside = vec![inside.try_clone()?, inside.try_clone()?, inside];
        Ok(Streams { input, sources, terminal: Some(outside), inside })
    };
    open().map_err(|error| no_stream(&error))
}

pub(super) fn no_stream(error: &std::io::Error) -> Error {
    Error::new(Code::Unavailable, format!("no stream can be created for the process: {error}"))
}
