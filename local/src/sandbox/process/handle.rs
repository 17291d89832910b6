//! A caller's handle to a process.

use std::sync::{Arc, Weak};
use std::time::Duration;

use koze_guest::message::Request;
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::time::{Instant, timeout_at};

use super::input;
use super::record::{Record, not_found};
use super::start::start_process;
use crate::engine;
use crate::sandbox::inner::Inner;
use crate::sandbox::running::Running;
use koze_core::error::{Code, Error, Result};
use koze_core::sandbox::process::{
    BUFFER, Exit, Process, ProcessId, ProcessOutput, Program, Signal, check_size,
};

/// How long closing standard input waits for earlier writes.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A deadline that is never reached: one year.
const FAR: Duration = Duration::from_hours(365 * 24);

/// A process of a sandbox on this machine. It ends with the sandbox, not when this is dropped.
#[derive(Debug, Clone)]
pub struct LocalProcess {
    id: ProcessId,
    sandbox: Arc<Inner>,
    running: Weak<Running>,
    record: Weak<Record>,
}

impl LocalProcess {
    pub(crate) async fn start(
        sandbox: Arc<Inner>,
        running: &Arc<Running>,
        program: Program,
        env: Vec<(String, String)>,
    ) -> Result<Self> {
        let record = start_process(running, program, env).await?;
        Ok(LocalProcess::new(sandbox, running, &record))
    }

    pub(crate) fn find(sandbox: Arc<Inner>, running: &Arc<Running>, id: &ProcessId) -> Option<Self> {
        Some(LocalProcess::new(sandbox, running, &running.processes.get(id)?))
    }

    pub(super) fn new(sandbox: Arc<Inner>, running: &Arc<Running>, record: &Arc<Record>) -> Self {
        let (running, record, id) = (Arc::downgrade(running), Arc::downgrade(record), record.id.clone());
        LocalProcess { id, sandbox, running, record }
    }

    fn running(&self) -> Result<Arc<Running>> {
        self.running.upgrade().filter(|running| !running.has_ended()).ok_or_else(not_found)
    }

    fn record(&self) -> Result<Arc<Record>> {
        self.running()?;
        let record = self.record.upgrade().ok_or_else(not_found)?;
        record.check()?;
        Ok(record)
    }

    /// Runs an operation on the process, which counts as a use of the sandbox. It stops if the caller drops the future.
    async fn with<T, F>(&self, work: impl FnOnce(Arc<Record>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let using = self.sandbox.using();
        let work = work(self.record()?);
        engine::run_while_waited(async move {
            let done = work.await;
            drop(using);
            done
        })
        .await
    }
}

impl Process for LocalProcess {
    fn id(&self) -> &ProcessId {
        &self.id
    }

    async fn write_stdin(&self, bytes: Vec<u8>, wait: Duration) -> Result<usize> {
        self.with(|record| async move { input::write_input(&record, &bytes, wait.min(FAR)).await }).await
    }

    async fn close_stdin(&self) -> Result<()> {
        self.with(|record| async move { input::close_input(&record, TIMEOUT).await }).await
    }

    async fn read(&self, cursor: u64, limit: usize, wait: Duration) -> Result<ProcessOutput> {
        if limit == 0 {
            return Err(Error::new(Code::InvalidInput, "a read must have a limit of at least 1 byte"));
        }
        let limit = limit.min(*BUFFER.end());
        self.with(|record| async move {
            let until = Instant::now() + wait.min(FAR);
            let mut news = record.news.subscribe();
            loop {
                news.mark_unchanged();
                record.check()?;
                let output = record.read(cursor, limit)?;
                let nothing = output.next == cursor && output.exit.is_none();
                if !nothing || timeout_at(until, news.changed()).await.is_err() {
                    return Ok(output);
                }
            }
        })
        .await
    }

    async fn signal(&self, signal: Signal) -> Result<()> {
        let ends = self.record()?.ends;
        let using = self.sandbox.using();
        let running = self.running()?;
        engine::run_to_completion(async move {
            let signal = i32::from(signal.number());
            let sent = running.call(&Request::Signal { ends, signal }).await;
            drop(using);
            sent.map(drop)
        })
        .await
    }

    async fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        check_size(rows, columns)?;
        let record = self.record()?;
        if !record.has_terminal {
            let message = "the process has no terminal: start it with one to give it a size";
            return Err(Error::new(Code::InvalidInput, message));
        }
        // A terminal that is no longer open needs no size.
        let Some(terminal) = record.terminal() else { return Ok(()) };
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(terminal, size).map_err(|error| {
            Error::new(Code::Internal, format!("the terminal's size cannot be set: {error}"))
        })
    }

    async fn wait(&self, timeout: Duration) -> Result<Option<Exit>> {
        self.with(|record| async move {
            let until = Instant::now() + timeout.min(FAR);
            let mut news = record.news.subscribe();
            loop {
                news.mark_unchanged();
                record.check()?;
                if let Some(exit) = record.exit() {
                    return Ok(Some(exit));
                }
                if timeout_at(until, news.changed()).await.is_err() {
                    return Ok(None);
                }
            }
        })
        .await
    }
}
