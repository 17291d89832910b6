//! A file as a stream of its contents.

use std::time::Duration;

use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt as _};
use serde::de::DeserializeOwned;

use super::{Handle, Lifecycle, whole};
use crate::error::{Code, Error, Result};
use crate::maybe_send::MaybeSend;
use crate::provider::Provider;
use crate::time::sleep;

/// The polling interval.
const PERIOD: Duration = Duration::from_millis(250);
/// The largest file that can be watched, because every poll reads it.
const LARGEST: u64 = 16 * 1024 * 1024;

impl<P: Provider> Handle<P> {
    /// Streams the content of a file and every later content, polling four times a second. Waits for a file that does not
    /// exist yet. If the file is deleted, the stream returns [`Code::NotFound`] once; other errors are also returned once until
    /// they change. The stream ends when the sandbox is destroyed.
    ///
    /// A watched sandbox counts as used and does not go to sleep; one that is already asleep is not woken repeatedly. Natively
    /// the stream needs a tokio runtime.
    pub fn watch(&self, path: &str) -> impl Stream<Item = Result<Vec<u8>>> + MaybeSend + use<P> {
        let start = Watch { handle: self.clone(), path: path.to_owned(), last: Last::Unknown };
        unfold(start, |mut watch| async move { Some((watch.next().await?, watch)) })
    }

    /// Streams the content as text. Content that is not UTF-8 is returned as [`Code::Binary`].
    pub fn watch_text(&self, path: &str) -> impl Stream<Item = Result<String>> + MaybeSend + use<P> {
        let name = path.to_owned();
        self.watch(path).map(move |content| {
            let binary = |_| Error::new(Code::Binary, format!("`{name}` is not UTF-8"));
            String::from_utf8(content?).map_err(binary)
        })
    }

    /// Streams the content as a value parsed from JSON. Content that does not match the type is returned as
    /// [`Code::InvalidInput`]. A file that is written in place may be seen half-written; replace it by renaming, as
    /// `write_file` does.
    pub fn watch_json<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> impl Stream<Item = Result<T>> + MaybeSend + use<P, T> {
        let name = path.to_owned();
        self.watch(path).map(move |content| {
            let wrong =
                |error| Error::new(Code::InvalidInput, format!("`{name}` has an unexpected value: {error}"));
            serde_json::from_slice(&content?).map_err(wrong)
        })
    }
}

struct Watch<P: Provider> {
    handle: Handle<P>,
    path: String,
    last: Last,
}

/// The result of the last poll.
#[derive(PartialEq)]
enum Last {
    /// There was no poll yet.
    Unknown,
    Nothing,
    Content(Vec<u8>),
    Failed(Error),
}

impl<P: Provider> Watch<P> {
    async fn next(&mut self) -> Option<Result<Vec<u8>>> {
        loop {
            if self.last != Last::Unknown {
                sleep(PERIOD).await;
            }
            let now = match self.handle.refresh_lifecycle().await {
                Ok(Lifecycle::Destroyed) => return None,
                // Nothing in it runs that could change the file.
                Ok(Lifecycle::Sleeping) if self.last != Last::Unknown => continue,
                Ok(_) => match whole(&self.handle.sandbox, &self.path, LARGEST).await {
                    Ok(content) => Last::Content(content),
                    Err(error) if error.code == Code::NotFound => Last::Nothing,
                    Err(error) => Last::Failed(error),
                },
                Err(error) => Last::Failed(error),
            };
            if now == self.last {
                continue;
            }
            let before = std::mem::replace(&mut self.last, now);
            match &self.last {
                Last::Content(content) => return Some(Ok(content.clone())),
                Last::Failed(error) => return Some(Err(error.clone())),
                Last::Nothing if matches!(before, Last::Content(_)) => {
                    // It may have gone with the sandbox.
                    if matches!(self.handle.refresh_lifecycle().await, Ok(Lifecycle::Destroyed)) {
                        return None;
                    }
                    return Some(Err(Error::new(Code::NotFound, format!("`{}` has gone", self.path))));
                }
                Last::Nothing | Last::Unknown => {}
            }
        }
    }
}
