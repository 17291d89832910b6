//! The processes of a sandbox.

use std::io::BufReader;
use std::thread::sleep;
use std::time::Duration;

use koze_core::http::{
    ProcessEntry, ProcessEvent, ProcessList, SendSignal, StartProcess, TerminalSize, Written,
};
use koze_core::sandbox::process::Signal;
use koze_core::{Code, Error, Result};
use ureq::BodyReader;

use crate::events::{ServerEvent, read_event};
use crate::request::{cut_off, encode};
use crate::{Client, Session};

/// How often events that were cut off are requested again, without an event in between.
const MAX_ATTEMPTS: u32 = 5;
/// The pause before the first of these requests. Each is followed by a longer one.
const PAUSE: Duration = Duration::from_millis(200);

impl Session {
    /// Lists the processes of a sandbox, the oldest first.
    ///
    /// # Errors
    /// [`Code::NotFound`] if there is no such sandbox, and the errors of the request.
    pub fn processes(&self, sandbox: &str) -> Result<ProcessList> {
        self.client.get_json(&format!("{}/processes", self.sandbox_path(sandbox)))
    }

    /// Starts a process in a sandbox that exists.
    ///
    /// # Errors
    /// [`Code::NotFound`] if there is no such sandbox or program, and the errors of the request.
    pub fn start_process(&self, sandbox: &str, program: &StartProcess) -> Result<ProcessEntry> {
        self.client.post_json(&format!("{}/processes", self.sandbox_path(sandbox)), program)
    }

    /// Returns the output of a process from a position on: 0, or that of an earlier event. With `follow`, waits for more until
    /// the process ends.
    ///
    /// # Errors
    /// [`Code::NotFound`] if there is no such process, and the errors of the request.
    pub fn process_events(&self, sandbox: &str, id: &str, since: u64, follow: bool) -> Result<ProcessEvents> {
        let path = format!("{}/events?follow={follow}", self.process_path(sandbox, id));
        let mut events = ProcessEvents {
            client: self.client.clone(),
            path,
            position: since.to_string(),
            follow,
            body: None,
            ended: false,
        };
        events.connect()?;
        Ok(events)
    }

    /// Writes to the standard input of a process, and closes it if `close` is set and all was written. Returns how many bytes
    /// were written: fewer than all if the process does not read them in time.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if its standard input is closed, and the errors of the request.
    pub fn write_stdin(&self, sandbox: &str, id: &str, bytes: &[u8], close: bool) -> Result<usize> {
        let path = format!("{}/stdin?close={close}", self.process_path(sandbox, id));
        let Written { written } = self.client.post(&path, bytes)?;
        Ok(written)
    }

    /// Sends a signal to a process.
    ///
    /// # Errors
    /// [`Code::NotFound`] if there is no such process, and the errors of the request.
    pub fn signal_process(&self, sandbox: &str, id: &str, signal: Signal) -> Result<()> {
        let path = format!("{}/signal", self.process_path(sandbox, id));
        self.post_control(&path, &SendSignal::from(signal))
    }

    /// Sets the size of a process's terminal.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if it has none, and the errors of the request.
    pub fn resize_terminal(&self, sandbox: &str, id: &str, size: TerminalSize) -> Result<()> {
        self.post_control(&format!("{}/resize", self.process_path(sandbox, id)), &size)
    }

    fn process_path(&self, sandbox: &str, id: &str) -> String {
        format!("{}/processes/{}", self.sandbox_path(sandbox), encode(id))
    }
}

/// The output of a process. If the connection is cut off, it goes on where it was.
pub struct ProcessEvents {
    client: Client,
    path: String,
    /// The ID of the last event.
    position: String,
    follow: bool,
    body: Option<BufReader<BodyReader<'static>>>,
    ended: bool,
}

impl ProcessEvents {
    fn connect(&mut self) -> Result<()> {
        let headers = [("last-event-id", self.position.as_str()), ("accept", "text/event-stream")];
        let response = self.client.get(&self.path, &headers)?;
        self.body = Some(BufReader::new(response.into_body().into_reader()));
        Ok(())
    }

    fn read_next(&mut self) -> Result<Option<ProcessEvent>> {
        let mut attempts = 0;
        loop {
            let lost = match self.read_connection() {
                Ok(Some(event)) => return self.parse(event).map(Some),
                Ok(None) if !self.follow => return Ok(None),
                Ok(None) => Error::new(Code::Unavailable, "the events ended before the process"),
                Err(error) => error,
            };
            self.body = None;
            attempts += 1;
            if attempts > MAX_ATTEMPTS {
                return Err(lost);
            }
            sleep(PAUSE * 2_u32.pow(attempts - 1));
            match self.connect() {
                // The server may come back.
                Err(error) if error.code == Code::Unavailable => {}
                connected => connected?,
            }
        }
    }

    fn read_connection(&mut self) -> Result<Option<ServerEvent>> {
        let Some(body) = &mut self.body else { return Ok(None) };
        read_event(body).map_err(|error| cut_off(&error))
    }

    fn parse(&mut self, event: ServerEvent) -> Result<ProcessEvent> {
        if let Some(id) = event.id {
            self.position = id;
        }
        let event = ProcessEvent::parse(&event.name, &event.data)?;
        if let ProcessEvent::Exit(_) | ProcessEvent::Error(_) = event {
            self.ended = true;
        }
        Ok(event)
    }
}

impl Iterator for ProcessEvents {
    type Item = Result<ProcessEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read_next();
        if !matches!(next, Ok(Some(_))) {
            self.ended = true;
        }
        next.transpose()
    }
}

impl std::fmt::Debug for ProcessEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessEvents")
            .field("path", &self.path)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
