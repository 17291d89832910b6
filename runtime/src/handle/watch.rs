//! A file as a stream of its contents.

use std::time::Duration;

use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt as _};
use serde::de::DeserializeOwned;

use super::{Handle, Life, whole};
use crate::error::{Code, Error, Result};
use crate::provider::Provider;
use crate::sandbox::MaybeSend;
use crate::time::sleep;

/// How often it is looked at.
const PERIOD: Duration = Duration::from_millis(250);
/// The largest file that is watched: each look reads it.
const LARGEST: u64 = 16 * 1024 * 1024;

impl<P: Provider> Handle<P> {
    /// The contents of a file: the one it has, and each that follows, looked for four times a second. A file that is not
    /// there yet is waited for; one that goes away is an error [`Code::NotFound`], once, and so is every other error
    /// until it changes. The stream ends when the sandbox is destroyed.
    ///
    /// A sandbox whose file is watched counts as used, and does not go to sleep; one that sleeps is not woken again and
    /// again. Natively it is to be awaited in a runtime of tokio's.
    pub fn watch(&self, path: &str) -> impl Stream<Item = Result<Vec<u8>>> + MaybeSend + use<P> {
        let start = Watch { handle: self.clone(), path: path.to_owned(), last: Last::Unknown };
        unfold(start, |mut watch| async move { Some((watch.next().await?, watch)) })
    }

    /// The same as text; what is not UTF-8 is an error [`Code::Binary`].
    pub fn watch_text(&self, path: &str) -> impl Stream<Item = Result<String>> + MaybeSend + use<P> {
        let name = path.to_owned();
        self.watch(path).map(move |content| {
            let binary = |_| Error::new(Code::Binary, format!("`{name}` is not UTF-8"));
            String::from_utf8(content?).map_err(binary)
        })
    }

    /// The same as a value; what is not JSON of its type is an error [`Code::InvalidInput`]. A file that is written in
    /// place may be seen half-written: put it there by renaming, as `write_file` does.
    pub fn watch_json<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> impl Stream<Item = Result<T>> + MaybeSend + use<P, T> {
        let name = path.to_owned();
        self.watch(path).map(move |content| {
            let wrong =
                |error| Error::new(Code::InvalidInput, format!("`{name}` is not as expected: {error}"));
            serde_json::from_slice(&content?).map_err(wrong)
        })
    }
}

struct Watch<P: Provider> {
    handle: Handle<P>,
    path: String,
    last: Last,
}

/// What was there at the last look.
#[derive(PartialEq)]
enum Last {
    /// There was none yet.
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
            let now = match self.handle.look().await {
                Ok(Life::Destroyed) => return None,
                // Nothing in it runs that could change the file.
                Ok(Life::Sleeping) if self.last != Last::Unknown => continue,
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
                    if matches!(self.handle.look().await, Ok(Life::Destroyed)) {
                        return None;
                    }
                    return Some(Err(Error::new(Code::NotFound, format!("`{}` has gone", self.path))));
                }
                Last::Nothing | Last::Unknown => {}
            }
        }
    }
}
