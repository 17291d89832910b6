//! Programs whose standard streams belong to the caller that starts them: nothing of their output passes through this
//! program.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};

use rustix::pipe::fcntl_setpipe_size;
use tokio::net::unix::pipe::Receiver;

use super::handle::LocalProcess;
use super::output;
use super::record::Record;
use super::start::{Started, no_stream, request_start, request_terminal};
use crate::engine::engine;
use crate::sandbox::inner::Inner;
use crate::sandbox::running::Running;
use koze_core::error::{Code, Error, Result};
use koze_core::sandbox::process::{ProcessId, Program, Stdio};
use koze_state::AttachedStreams;

/// The maximum number of attached programs of a sandbox.
const MAX_ATTACHED: usize = 64;
/// The capacity of the pipes of standard output and input, in bytes. With the default of 64 KiB, reader and writer would
/// wait for each other more often.
const PIPE: usize = 1 << 20;

/// A program whose standard streams belong to the caller.
#[derive(Debug)]
pub struct Attached {
    process: LocalProcess,
    record: Arc<Record>,
    running: Weak<Running>,
}

impl Attached {
    /// Returns its process. It has no output to read.
    pub fn process(&self) -> &LocalProcess {
        &self.process
    }

    /// Takes the reason why it was killed, if its exit code does not tell.
    pub fn take_note(&self) -> Option<String> {
        self.record.take_note()
    }

    /// Reads the rest of its output and drops it. Programs that it left in the background may go on writing, and a closed pipe
    /// would kill them.
    pub fn drain(&self, pipe: OwnedFd) {
        let (Some(running), Ok(engine)) = (self.running.upgrade(), engine()) else { return };
        if rustix::io::ioctl_fionbio(&pipe, true).is_err() {
            return;
        }
        let _engine = engine.enter();
        if let Ok(pipe) = Receiver::from_owned_fd_unchecked(pipe) {
            running.background.drain(pipe);
        }
    }
}

/// Starts a program. Call this on the engine, and run it to completion.
pub(in crate::sandbox) async fn start_attached(
    sandbox: Arc<Inner>,
    running: &Arc<Running>,
    program: Program,
    env: Vec<(String, String)>,
) -> Result<(Attached, AttachedStreams)> {
    let processes = &running.processes;
    let _one = processes.starting.lock().await;
    if processes.attached().len() >= MAX_ATTACHED {
        let message =
            format!("the sandbox runs {MAX_ATTACHED} attached programs already: wait for one to end");
        return Err(Error::new(Code::Unavailable, message));
    }
    let (streams, inside) = match program.stdio {
        Stdio::Pipes => create_pipes(running).map_err(|error| no_stream(&error))?,
        Stdio::Terminal { rows, columns } => {
            let [outside, inside] = request_terminal(running, rows, columns).await?;
            let copies = || Ok(vec![inside.try_clone()?, inside.try_clone()?, inside]);
            let inside = copies().map_err(|error| no_stream(&error))?;
            (AttachedStreams::Terminal(outside), inside)
        }
    };
    let name = program.argv.first().cloned().unwrap_or_default();
    let label = program.label.clone();
    let has_terminal = matches!(streams, AttachedStreams::Terminal(_));
    let Started { ends, ended, judged_before } =
        request_start(running, program, env, has_terminal, &inside).await?;
    let record = Arc::new(Record::attached(ProcessId::random(), (name, label), ends, has_terminal));
    processes.attached().push(Arc::clone(&record));
    let ending = output::await_end(Arc::clone(&record), ended, Arc::downgrade(running), judged_before);
    let (done, of) = (Arc::clone(&record), Arc::downgrade(running));
    engine()?.spawn(async move {
        ending.await;
        if let Some(running) = of.upgrade() {
            running.processes.attached().retain(|record| record.id != done.id);
        }
    });
    let process = LocalProcess::new(sandbox, running, &record);
    let running = Arc::downgrade(running);
    Ok((Attached { process, record, running }, streams))
}

/// Creates the pipes of a program. Returns the caller's ends, and those of the program.
fn create_pipes(running: &Running) -> std::io::Result<(AttachedStreams, Vec<OwnedFd>)> {
    let (inside_stdin, stdin) = running.pipe()?;
    let (stdout, inside_stdout) = running.pipe()?;
    let (stderr, inside_stderr) = running.pipe()?;
    for pipe in [stdin.as_fd(), stdout.as_fd()] {
        // A user can have a limited number of large pipes. The others are slower.
        let _ = fcntl_setpipe_size(pipe, PIPE);
    }
    let streams = AttachedStreams::Pipes { stdin, stdout, stderr };
    Ok((streams, vec![inside_stdin, inside_stdout, inside_stderr]))
}
