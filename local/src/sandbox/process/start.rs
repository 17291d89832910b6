//! Starts processes.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use koze_guest::message::{Answer, Request};

use super::ends::{Input, Source};
use super::output;
use super::record::{Record, STDERR, STDOUT};
use crate::engine::engine;
use crate::errors::{convert_fault, unexpected_answer};
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
    let mut all =
        if terminal.is_some() { vec![TERM].into_iter().map(to_owned_pair).collect() } else { Vec::new() };
    all.extend(env);
    let ends = running.number();
    let judged_before = running.judgements.so_far();
    let ended = running.expect(ends)?;
    let name = program.argv.first().cloned().unwrap_or_default();
    let request = Request::Start {
        argv: program.argv,
        cwd: program.working_dir,
        env: all,
        terminal: terminal.is_some(),
        ends,
    };
    let inside: Vec<_> = inside.iter().map(AsFd::as_fd).collect();
    if let Err(error) = running.call_with(&request, &inside).await {
        running.expect_no_more(ends);
        return Err(error);
    }
    let id = ProcessId::random();
    let drop_oldest = program.overflow == Overflow::DropOldest;
    let record = Record::new(
        id,
        (name, program.label),
        ends,
        terminal,
        (program.buffer, drop_oldest),
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

/// Opens a terminal inside the sandbox. It is never the controlling terminal of this process.
async fn open_terminal(running: &Running, rows: u16, columns: u16) -> Result<Streams> {
    let opened = running.call(&Request::Terminal { rows, columns }).await?;
    let (Answer::Terminal, Ok([outside, inside])) =
        (opened.message, <[OwnedFd; 2]>::try_from(opened.descriptors))
    else {
        return Err(unexpected_answer());
    };
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

fn no_stream(error: &std::io::Error) -> Error {
    Error::new(Code::Unavailable, format!("no stream can be created for the process: {error}"))
}
