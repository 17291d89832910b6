//! Changes to the files below a path as server-sent events. The files are compared with what they were, because not every host
//! can be told about changes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures_util::stream::unfold;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::body::{ErrorDetails, FileEntry};
use super::request::EventStream;
use crate::error::{Code, Error, Result};
use crate::id::SandboxName;
use crate::path::anywhere;
use crate::progress::events::{COMMENT, event};
use crate::provider::Provider;
use crate::sandbox::{Entry, Kind, Sandbox, Stat, Status};
use crate::session::Session;
use crate::time::{Start, sleep};

/// The pause between two comparisons.
#[cfg(not(target_arch = "wasm32"))]
const PERIOD: Duration = Duration::from_millis(500);
/// The pause between two comparisons. Each request to an object counts toward a limit of the platform.
#[cfg(target_arch = "wasm32")]
const PERIOD: Duration = Duration::from_secs(2);
/// How many times longer than a comparison the pause after it is at least, so that watching costs little.
const REST: u32 = 4;
/// How long nothing may be sent. A comment then keeps the connection open, and shows whether the client is still there.
const SILENCE: Duration = Duration::from_secs(5);
/// After how many requests to objects a response ends, so that the platform does not end it with an error. The client connects
/// again.
const MAX_REQUESTS: Option<usize> = if cfg!(target_arch = "wasm32") { Some(800) } else { None };
/// How many requests a comparison makes beside those for each directory: to find, describe and wake the sandbox, and for the path.
const REQUESTS: usize = 4;
/// How many files and directories may be watched.
const MAX_ENTRIES: usize = 10_000;
/// How many directories may be watched: each is a request to the sandbox.
const MAX_DIRECTORIES: usize = 1_000;

/// An event. Its name is that of the variant in lower case, and its data the content as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEvent {
    /// The first event: later changes are reported.
    Ready(WatchedFiles),
    /// Something was created, or moved to this path.
    Created(FileChange),
    /// The content or the metadata of something changed. For a directory, its permission bits.
    Changed(FileChange),
    /// Something was removed, or moved to another path.
    Removed(FileChange),
    /// Watching failed, for example because the sandbox was destroyed. The last event.
    Error(ErrorDetails),
}

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct WatchedFiles {
    /// The number of files and directories: 0 if there is nothing at the path.
    pub entries: u64,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FileChange {
    /// The absolute path in the sandbox.
    pub path: String,
    /// What is there now. None if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<FileEntry>,
}

impl FileEvent {
    /// Parses an event.
    ///
    /// # Errors
    /// [`Code::Internal`] if its data is not that of such an event.
    pub fn parse(name: &str, data: &str) -> Result<Self> {
        let event = match name {
            "ready" => serde_json::from_str(data).map(FileEvent::Ready),
            "created" => serde_json::from_str(data).map(FileEvent::Created),
            "changed" => serde_json::from_str(data).map(FileEvent::Changed),
            "removed" => serde_json::from_str(data).map(FileEvent::Removed),
            "error" => serde_json::from_str(data).map(FileEvent::Error),
            _ => return Err(Error::new(Code::Internal, format!("files have no event `{name}`"))),
        };
        event.map_err(|error| {
            let message = format!("the event `{name}` of files is not valid: {error}");
            Error::new(Code::Internal, message).with_source(error)
        })
    }

    /// Returns its lines.
    fn encode(&self) -> String {
        match self {
            FileEvent::Ready(watched) => event("ready", watched),
            FileEvent::Created(change) => event("created", change),
            FileEvent::Changed(change) => event("changed", change),
            FileEvent::Removed(change) => event("removed", change),
            FileEvent::Error(error) => event("error", error),
        }
    }
}

/// What is below a path, by its own path.
type Files = BTreeMap<String, Stat>;

/// Returns the changes below a path of a sandbox that exists.
///
/// # Errors
/// [`Code::TooLarge`] if there is too much to watch, and the errors of the sandbox.
pub(super) async fn stream_changes<P: Provider>(
    session: &Session<P>,
    name: &str,
    sandbox: &P::Sandbox,
    path: &str,
) -> Result<EventStream> {
    let known = scan(sandbox, path).await?;
    let first = FileEvent::Ready(WatchedFiles { entries: known.len() as u64 });
    let watch = Watch {
        session: session.clone(),
        name: SandboxName::new(name)?,
        path: path.to_owned(),
        known,
        ready: VecDeque::from([first.encode()]),
        pause: PERIOD,
        requests: 0,
        quiet: Start::now(),
        ended: false,
    };
    Ok(Box::pin(unfold(watch, |mut watch| async move {
        let next = watch.next().await?;
        Some((next, watch))
    })))
}

struct Watch<P: Provider> {
    session: Session<P>,
    name: SandboxName,
    path: String,
    known: Files,
    ready: VecDeque<String>,
    pause: Duration,
    /// How many requests were made.
    requests: usize,
    /// When something was last sent.
    quiet: Start,
    ended: bool,
}

impl<P: Provider> Watch<P> {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                self.quiet = Start::now();
                return Some(ready);
            }
            if self.ended {
                return None;
            }
            sleep(self.pause).await;
            let start = Start::now();
            match self.scan_running().await {
                Ok(Some(files)) => self.compare(files),
                Ok(None) => {}
                // It may pass, as when a container of a Worker is replaced.
                Err(error) if error.code == Code::Unavailable => {}
                Err(error) => self.fail(&error),
            }
            let directories = self.known.values().filter(|stat| stat.kind == Kind::Directory).count();
            self.requests = self.requests.saturating_add(REQUESTS + directories);
            self.ended |= MAX_REQUESTS.is_some_and(|max| self.requests > max);
            self.pause = PERIOD.max(start.elapsed() * REST);
            if self.ready.is_empty() && self.quiet.elapsed() >= SILENCE {
                self.ready.push_back(COMMENT.to_owned());
            }
        }
    }

    /// Returns the files, unless the sandbox sleeps: then nothing can change them.
    async fn scan_running(&self) -> Result<Option<Files>> {
        let Some(opened) = self.session.find_sandbox(&self.name).await? else {
            return Err(Error::new(Code::NotFound, format!("the sandbox `{}` was destroyed", self.name)));
        };
        match opened.sandbox.status().await? {
            Status::Sleeping => Ok(None),
            Status::Running => scan(&opened.sandbox, &self.path).await.map(Some),
        }
    }

    /// Reports what differs from the known files. What was removed comes first, so that a client can apply the events in order.
    fn compare(&mut self, files: Files) {
        let known = std::mem::replace(&mut self.known, files);
        let removed = known.keys().rev().filter(|path| !self.known.contains_key(*path));
        let removed = removed.map(|path| FileEvent::Removed(FileChange { path: path.clone(), entry: None }));
        let present = self.known.iter().filter_map(|(path, stat)| match known.get(path) {
            None => Some(FileEvent::Created(change(path, stat))),
            Some(before) if is_changed(before, stat) => Some(FileEvent::Changed(change(path, stat))),
            Some(_) => None,
        });
        self.ready.extend(removed.chain(present).map(|event| event.encode()));
    }

    fn fail(&mut self, error: &Error) {
        let details = ErrorDetails { code: error.code.as_str().to_owned(), message: error.message.clone() };
        self.ready.push_back(FileEvent::Error(details).encode());
        self.ended = true;
    }
}

fn change(path: &str, stat: &Stat) -> FileChange {
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    FileChange { path: path.to_owned(), entry: Some(FileEntry::from(Entry { name, stat: stat.clone() })) }
}

/// Returns whether something has changed. The time of a directory changes with its entries, which are reported themselves.
fn is_changed(before: &Stat, now: &Stat) -> bool {
    match (&before.kind, &now.kind) {
        (Kind::Directory, Kind::Directory) => before.mode != now.mode,
        _ => before != now,
    }
}

/// Returns what is at a path and below it, without following links. What vanishes meanwhile, or cannot be read, is left out.
async fn scan<S: Sandbox>(sandbox: &S, path: &str) -> Result<Files> {
    let path = if path == "/" { path } else { path.trim_end_matches('/') };
    let root = match sandbox.stat(anywhere(path)).await {
        Err(error) if is_missing(&error) => return Ok(Files::new()),
        root => root?,
    };
    let mut directories = Vec::new();
    if root.kind == Kind::Directory {
        directories.push(path.to_owned());
    }
    let mut files = Files::from([(path.to_owned(), root)]);
    let mut listed = 0;
    while let Some(directory) = directories.pop() {
        listed += 1;
        let entries = match sandbox.list(anywhere(&directory)).await {
            Err(error) if is_missing(&error) || error.code == Code::PermissionDenied => continue,
            entries => entries?,
        };
        if listed > MAX_DIRECTORIES || files.len() + entries.len() > MAX_ENTRIES {
            let message = format!(
                "`{path}` has more than {MAX_DIRECTORIES} directories or {MAX_ENTRIES} entries: watch a directory below it"
            );
            return Err(Error::new(Code::TooLarge, message));
        }
        for Entry { name, stat } in entries {
            let entry = format!("{}/{name}", directory.trim_end_matches('/'));
            if stat.kind == Kind::Directory {
                directories.push(entry.clone());
            }
            files.insert(entry, stat);
        }
    }
    Ok(files)
}

fn is_missing(error: &Error) -> bool {
    matches!(error.code, Code::NotFound | Code::NotADirectory)
}

#[cfg(test)]
mod tests;
