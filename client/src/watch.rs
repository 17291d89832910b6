//! Changes to the files of a sandbox.

use koze_core::Result;
use koze_core::http::FileEvent;

use crate::Session;
use crate::source::EventSource;

impl Session {
    /// Returns the changes to what is at a path of a sandbox and below it. The first event is [`FileEvent::Ready`].
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if there is no such sandbox,
    /// [`Code::TooLarge`](koze_core::Code::TooLarge) if there is too much below the path, and the errors of the request.
    pub fn watch_files(&self, sandbox: &str, path: &str) -> Result<FileEvents> {
        let path = format!("{}?watch=true", self.file_path(sandbox, path));
        let source = EventSource::open(&self.client, path, None, false)?;
        Ok(FileEvents { source, ended: false })
    }
}

/// The changes to files. If the connection is cut off, it connects again, and [`FileEvent::Ready`] follows: changes before it may
/// be missing, so list the files again.
#[derive(Debug)]
pub struct FileEvents {
    source: EventSource,
    ended: bool,
}

impl FileEvents {
    fn read_next(&mut self) -> Result<FileEvent> {
        let event = self.source.read_next()?.expect("the stream does not end");
        FileEvent::parse(&event.name, &event.data)
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
