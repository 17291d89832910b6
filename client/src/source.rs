//! A stream of server-sent events that is requested again after it was cut off.

use std::fmt;
use std::io::BufReader;

use koze_core::{Code, Error, Result};
use ureq::BodyReader;

use crate::Client;
use crate::attempts::Attempts;
use crate::events::{ServerEvent, read_event};
use crate::request::cut_off;

/// A stream of events.
pub(crate) struct EventSource {
    client: Client,
    path: String,
    /// The ID of the last event, if the events have IDs.
    position: Option<String>,
    /// Whether the stream is complete when the server ends it.
    ends: bool,
    body: Option<BufReader<BodyReader<'static>>>,
}

impl EventSource {
    /// Requests the events after the one with the ID `position`, or all from now on.
    ///
    /// # Errors
    /// The errors of the request.
    pub(crate) fn open(client: &Client, path: String, position: Option<String>, ends: bool) -> Result<Self> {
        let mut source = EventSource { client: client.clone(), path, position, ends, body: None };
        source.connect()?;
        Ok(source)
    }

    fn connect(&mut self) -> Result<()> {
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(self.position.as_deref().map(|position| ("last-event-id", position)));
        let response = self.client.get(&self.path, &headers)?;
        self.body = Some(BufReader::new(response.into_body().into_reader()));
        Ok(())
    }

    /// Reads the next event. Returns `None` at the end of a stream that ends.
    ///
    /// # Errors
    /// If the stream was cut off and cannot be requested again.
    pub(crate) fn read_next(&mut self) -> Result<Option<ServerEvent>> {
        let mut attempts = Attempts::default();
        loop {
            let lost = match self.body.as_mut().map(read_event) {
                Some(Ok(Some(event))) => {
                    if let Some(id) = &event.id {
                        self.position = Some(id.clone());
                    }
                    return Ok(Some(event));
                }
                Some(Ok(None)) if self.ends => return Ok(None),
                Some(Ok(None)) | None => Error::new(Code::Unavailable, "the server ended the events"),
                Some(Err(error)) => cut_off(&error),
            };
            self.body = None;
            if !attempts.wait_for_next() {
                return Err(lost);
            }
            match self.connect() {
                // The server may come back.
                Err(error) if error.code == Code::Unavailable => {}
                connected => connected?,
            }
        }
    }
}

impl fmt::Debug for EventSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSource")
            .field("path", &self.path)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
