//! The processes of a sandbox.

use koze_core::Result;
use koze_core::http::{
    ProcessEntry, ProcessEvent, ProcessList, SendSignal, StartProcess, TerminalSize, Written,
};
use koze_core::sandbox::process::Signal;

use crate::Session;
use crate::request::encode;
use crate::source::EventSource;

impl Session {
    /// Lists the processes of a sandbox, the oldest first.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if there is no such sandbox, and the errors of the request.
    pub fn processes(&self, sandbox: &str) -> Result<ProcessList> {
        self.client.get_json(&format!("{}/processes", self.sandbox_path(sandbox)))
    }

    /// Starts a process in a sandbox that exists.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if there is no such sandbox or program, and the errors of the request.
    pub fn start_process(&self, sandbox: &str, program: &StartProcess) -> Result<ProcessEntry> {
        self.client.post_json(&format!("{}/processes", self.sandbox_path(sandbox)), program)
    }

    /// Returns the output of a process from a position on: 0, or that of an earlier event. With `follow`, waits for more until
    /// the process ends.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if there is no such process, and the errors of the request.
    pub fn process_events(&self, sandbox: &str, id: &str, since: u64, follow: bool) -> Result<ProcessEvents> {
        let path = format!("{}/events?follow={follow}", self.process_path(sandbox, id));
        let source = EventSource::open(&self.client, path, Some(since.to_string()), !follow)?;
        Ok(ProcessEvents { source, ended: false })
    }

    /// Writes to the standard input of a process, and closes it if `close` is set and all was written. Returns how many bytes
    /// were written: fewer than all if the process does not read them in time.
    ///
    /// # Errors
    /// [`Code::InvalidInput`](koze_core::Code::InvalidInput) if its standard input is closed, and the errors of the request.
    pub fn write_stdin(&self, sandbox: &str, id: &str, bytes: &[u8], close: bool) -> Result<usize> {
        let path = format!("{}/stdin?close={close}", self.process_path(sandbox, id));
        let Written { written } = self.client.post(&path, bytes)?;
        Ok(written)
    }

    /// Sends a signal to a process.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if there is no such process, and the errors of the request.
    pub fn signal_process(&self, sandbox: &str, id: &str, signal: Signal) -> Result<()> {
        let path = format!("{}/signal", self.process_path(sandbox, id));
        self.post_control(&path, &SendSignal::from(signal))
    }

    /// Sets the size of a process's terminal.
    ///
    /// # Errors
    /// [`Code::InvalidInput`](koze_core::Code::InvalidInput) if it has none, and the errors of the request.
    pub fn resize_terminal(&self, sandbox: &str, id: &str, size: TerminalSize) -> Result<()> {
        self.post_control(&format!("{}/resize", self.process_path(sandbox, id)), &size)
    }

    fn process_path(&self, sandbox: &str, id: &str) -> String {
        format!("{}/processes/{}", self.sandbox_path(sandbox), encode(id))
    }
}

/// The output of a process. If the connection is cut off, it goes on where it was.
#[derive(Debug)]
pub struct ProcessEvents {
    source: EventSource,
    ended: bool,
}

impl ProcessEvents {
    fn read_next(&mut self) -> Result<Option<ProcessEvent>> {
        let Some(event) = self.source.read_next()? else { return Ok(None) };
        ProcessEvent::parse(&event.name, &event.data).map(Some)
    }
}

impl Iterator for ProcessEvents {
    type Item = Result<ProcessEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read_next();
        let is_last = matches!(next, Ok(Some(ProcessEvent::Exit(_) | ProcessEvent::Error(_))));
        self.ended = is_last || !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}
