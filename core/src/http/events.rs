//! The output of a process as server-sent events.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::unfold;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::body::ErrorDetails;
use super::request::EventStream;
use crate::error::{Code, Error, Result};
use crate::progress::events::COMMENT;
use crate::sandbox::process::{BUFFER, Process, ProcessOutput, Stream};

/// How long nothing may be sent. A comment then keeps the connection open, and shows whether the client is still there.
const SILENCE: Duration = Duration::from_secs(5);
/// How much is read at once, in bytes.
const PIECE: usize = 256 << 10;

/// An event. Its name is that of the variant in lower case, and its data the content as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEvent {
    /// Standard output, or the output of a terminal.
    Stdout(EventText),
    /// Standard error.
    Stderr(EventText),
    /// Output before this event was dropped.
    Dropped(DroppedOutput),
    /// The process has ended, and all that it wrote was sent. The last event.
    Exit(ProcessExit),
    /// Reading failed, for example because the sandbox sleeps. The last event.
    Error(ErrorDetails),
}

/// Output that was dropped because nobody read it in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DroppedOutput {
    /// How many bytes.
    pub bytes: u64,
}

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ProcessExit {
    /// Its exit code: 128 + n after signal n.
    pub exit_code: i32,
}

/// Output. A character may be divided between two events, which then have bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EventText {
    /// Output that is UTF-8.
    Text(String),
    /// Other output, as base64.
    Base64(String),
}

impl EventText {
    /// Encodes output.
    fn encode(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes)
            .map_or_else(|error| EventText::Base64(STANDARD.encode(error.as_bytes())), EventText::Text)
    }

    /// Returns the output.
    ///
    /// # Errors
    /// [`Code::Internal`] if it is not base64.
    pub fn into_bytes(self) -> Result<Vec<u8>> {
        match self {
            EventText::Text(text) => Ok(text.into_bytes()),
            EventText::Base64(text) => STANDARD.decode(text).map_err(|error| {
                Error::new(Code::Internal, "the output of an event is not base64").with_source(error)
            }),
        }
    }
}

impl ProcessEvent {
    /// Parses an event.
    ///
    /// # Errors
    /// [`Code::Internal`] if its data is not that of such an event.
    pub fn parse(name: &str, data: &str) -> Result<Self> {
        let event = match name {
            "stdout" => serde_json::from_str(data).map(ProcessEvent::Stdout),
            "stderr" => serde_json::from_str(data).map(ProcessEvent::Stderr),
            "dropped" => serde_json::from_str(data).map(ProcessEvent::Dropped),
            "exit" => serde_json::from_str(data).map(ProcessEvent::Exit),
            "error" => serde_json::from_str(data).map(ProcessEvent::Error),
            _ => {
                return Err(Error::new(Code::Internal, format!("a process has no event `{name}`")));
            }
        };
        event.map_err(|error| {
            let message = format!("the event `{name}` of a process is not valid: {error}");
            Error::new(Code::Internal, message).with_source(error)
        })
    }

    /// Returns its lines. The ID says where a client that connects again goes on.
    pub(super) fn encode(&self, id: u64) -> String {
        let (name, data) = match self {
            ProcessEvent::Stdout(text) => ("stdout", serde_json::to_string(text)),
            ProcessEvent::Stderr(text) => ("stderr", serde_json::to_string(text)),
            ProcessEvent::Dropped(dropped) => ("dropped", serde_json::to_string(dropped)),
            ProcessEvent::Exit(exit) => ("exit", serde_json::to_string(exit)),
            ProcessEvent::Error(error) => ("error", serde_json::to_string(error)),
        };
        let data = data.expect("an event is plain data");
        format!("id: {id}\nevent: {name}\ndata: {data}\n\n")
    }
}

/// Returns the output of a process from a cursor on. With `follow`, waits for more until the process ends.
///
/// # Errors
/// The errors of the first read.
pub(super) async fn stream_output<P: Process>(process: P, since: u64, follow: bool) -> Result<EventStream> {
    // What is there is read at once, which acknowledges nothing: other readers lose nothing.
    let limit = if follow { PIECE } else { *BUFFER.end() };
    let first = process.read(since, limit, Duration::ZERO).await?;
    let mut state = State { process, cursor: since, follow, ready: VecDeque::new(), ended: false };
    state.take(first);
    Ok(Box::pin(unfold(state, |mut state| async move {
        let next = state.next().await?;
        Some((next, state))
    })))
}

struct State<P> {
    process: P,
    cursor: u64,
    follow: bool,
    ready: VecDeque<String>,
    ended: bool,
}

impl<P: Process> State<P> {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if self.ended {
                return None;
            }
            let cursor = self.cursor;
            match self.process.read(cursor, PIECE, SILENCE).await {
                Ok(output) => self.take(output),
                Err(error) => self.fail(&error),
            }
            if self.ready.is_empty() {
                return Some(COMMENT.to_owned());
            }
        }
    }

    fn take(&mut self, output: ProcessOutput) {
        let length: u64 = output.chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum();
        let mut at = output.next - length;
        if output.dropped > 0 {
            self.ready.push_back(ProcessEvent::Dropped(DroppedOutput { bytes: output.dropped }).encode(at));
        }
        for chunk in output.chunks {
            at += chunk.bytes.len() as u64;
            let text = EventText::encode(chunk.bytes);
            let event = match chunk.stream {
                Stream::Stdout => ProcessEvent::Stdout(text),
                Stream::Stderr => ProcessEvent::Stderr(text),
            };
            self.ready.push_back(event.encode(at));
        }
        self.cursor = output.next;
        if let Some(exit) = output.exit {
            self.ready.push_back(ProcessEvent::Exit(ProcessExit { exit_code: exit.code }).encode(at));
            self.ended = true;
        } else if !self.follow {
            self.ended = true;
        }
    }

    fn fail(&mut self, error: &Error) {
        let details = ErrorDetails { code: error.code.as_str().to_owned(), message: error.message.clone() };
        self.ready.push_back(ProcessEvent::Error(details).encode(self.cursor));
        self.ended = true;
    }
}
