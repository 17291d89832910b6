//! Changes to the files of a sandbox.

use std::io::BufReader;
use std::thread::sleep;
use std::time::Duration;

use koze_core::http::FileEvent;
use koze_core::{Code, Error, Result};
use ureq::BodyReader;

use crate::events::read_event;
use crate::request::cut_off;
use crate::{Client, Session};

/// How often events that were cut off are requested again, without an event in between.
const MAX_ATTEMPTS: u32 = 5;
/// The pause before the first of these requests. Each is followed by a longer one.
const PAUSE: Duration = Duration::from_millis(200);

impl Session {
    /// Returns the changes to what is at a path of a sandbox and below it. The first event is [`FileEvent::Ready`].
    ///
    /// # Errors
    /// [`Code::NotFound`] if there is no such sandbox, [`Code::TooLarge`] if there is too much below the path, and the errors of
    /// the request.
    pub fn watch_files(&self, sandbox: &str, path: &str) -> Result<FileEvents> {
        let path = format!("{}?watch=true", self.file_path(sandbox, path));
        let mut events = FileEvents { client: self.client.clone(), path, body: None, ended: false };
        events.connect()?;
        Ok(events)
    }
}

/// The changes to files. If the connection is cut off, it connects again, and [`FileEvent::Ready`] follows: changes before it may
/// be missing, so list the files again.
pub struct FileEvents {
    client: Client,
    path: String,
    body: Option<BufReader<BodyReader<'static>>>,
    ended: bool,
}

impl FileEvents {
    fn connect(&mut self) -> Result<()> {
        let response = self.client.get(&self.path, &[("accept", "text/event-stream")])?;
        self.body = Some(BufReader::new(response.into_body().into_reader()));
        Ok(())
    }

    fn read_next(&mut self) -> Result<FileEvent> {
        let mut attempts = 0;
        loop {
            let lost = match self.body.as_mut().map(read_event) {
                Some(Ok(Some(event))) => return FileEvent::parse(&event.name, &event.data),
                Some(Err(error)) => cut_off(&error),
                Some(Ok(None)) | None => Error::new(Code::Unavailable, "the server ended the events"),
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
}

impl Iterator for FileEvents {
    type Item = Result<FileEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read_next();
        self.ended = matches!(next, Err(_) | Ok(FileEvent::Error(_)));
        Some(next)
    }
}

impl std::fmt::Debug for FileEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileEvents").field("path", &self.path).finish_non_exhaustive()
    }
}
