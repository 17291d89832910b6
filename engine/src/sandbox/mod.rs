//! A sandbox in a container, and its operations: each is a request to the guest.
//!
//! | module | job |
//! |---|---|
//! | `inner` | the state of a sandbox: asleep, running or destroyed |
//! | `programs` | the programs that run in its container |
//! | `process` | programs that keep running after the call that started them |
//! | `stream` | trees and archives as streams |

pub(crate) mod inner;
mod process;
mod programs;
mod stream;

use std::sync::Arc;

use koze_core::archive::{Bytes, Contents, Tar};
use koze_core::error::{Code, Error, Result};
use koze_core::sandbox::{
    Capabilities, Change, Command, Edit, Edited, EndedPrograms, Entry, LineRange, LineReader, Lines, Output,
    Piece, Place, ProcessId, ProcessInfo, Program, Sandbox, Search, Searched, Stat, Status, Write, rejected,
};
use koze_core::time::millis;
use koze_core::transfer::pieces;
use koze_guest::request::{self, Exited, Request, Size};
use koze_protocol::operation::{self, framed};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use self::inner::{Inner, Running, State};
pub use self::process::EngineProcess;
pub use self::stream::{Incoming, Outgoing};
use crate::guest::Answered;
use crate::preview;
use crate::runtime;

/// A sandbox in a container. Its container stops when its last handle and its [`Engine`](crate::Engine) are dropped; its files
/// are kept.
#[derive(Debug, Clone)]
pub struct EngineSandbox(pub(crate) Arc<Inner>);

impl EngineSandbox {
    /// Returns the running sandbox, and starts it if necessary, even if the caller stops waiting.
    pub(crate) async fn wake(&self) -> Result<Arc<Running>> {
        if let Some(running) = self.0.running() {
            return Ok(running);
        }
        let inner = Arc::clone(&self.0);
        runtime::run_to_completion(async move { inner.wake().await }).await
    }

    /// Makes a call whose input is `input`, and collects its output.
    async fn ask_with<T: DeserializeOwned>(&self, request: Request, input: &[&[u8]]) -> Result<Answered<T>> {
        let _using = self.0.using();
        let running = self.wake().await?;
        let asked = async {
            let mut call = running.connection.call(&request)?;
            for part in input {
                if !call.write(part).await? {
                    return call.finish().await;
                }
            }
            if !input.is_empty() {
                call.end();
            }
            call.finish().await
        };
        match asked.await {
            Ok(answered) => Ok(answered),
            Err(error) => Err(self.explain(running, error).await),
        }
    }

    /// Makes a call without input.
    async fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<Answered<T>> {
        self.ask_with(request, &[]).await
    }

    /// Explains why a call lost its connection.
    async fn explain(&self, running: Arc<Running>, error: Error) -> Error {
        if error.code != Code::Unavailable || !running.connection.is_closed() {
            return error;
        }
        let (inner, known) = (Arc::clone(&self.0), error.clone());
        let explained =
            runtime::run_to_completion(async move { Ok(inner.explain_end(&running, known).await) }).await;
        explained.unwrap_or(error)
    }

    /// Returns the name of its container in the engine.
    pub fn container_name(&self) -> &str {
        &self.0.container
    }

    /// Puts it to sleep, even if it is in use: its programs end, and its files stay.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the engine cannot stop its container.
    pub async fn sleep(&self) -> Result<()> {
        let inner = Arc::clone(&self.0);
        runtime::run_to_completion(async move { inner.sleep().await }).await
    }

    /// Changes the record while the sandbox runs: a later start would take a new staging path for a leftover.
    async fn change_staging(&self, path: &str, is_added: bool) -> Result<()> {
        let _using = self.0.using();
        self.wake().await?;
        self.0.change_record(|record| {
            record.staging.retain(|known| known != path);
            if is_added {
                record.staging.push(path.to_owned());
            }
        })
    }
}

impl Sandbox for EngineSandbox {
    type Process = EngineProcess;

    fn capabilities(&self) -> Capabilities {
        Capabilities { exec: true, expose: true }
    }

    async fn exec(&self, command: Command) -> Result<Output> {
        let _using = self.0.using();
        let running = self.wake().await?;
        let refused_before = running.network.refusals.count();
        let request = Request::Exec(operation::Exec {
            argv: command.argv,
            working_dir: command.working_dir,
            env: running.network.environment(command.env),
            timeout_ms: u32::try_from(millis(command.timeout)).unwrap_or(u32::MAX),
            max_output: u32::try_from(command.max_output).unwrap_or(u32::MAX),
            call: None,
        });
        let Answered { result, out, mut err } = self.ask::<Exited>(request).await?;
        if result.exit_code != 0
            && let Some(note) = running.network.refusals.describe_after(refused_before)
        {
            err.extend_from_slice(format!("\nkoze: {note}\n").as_bytes());
        }
        Ok(Output { stdout: out, stderr: err, exit_code: result.exit_code, timed_out: result.timed_out })
    }

    async fn start(&self, program: Program) -> Result<EngineProcess> {
        process::start(self, program).await
    }

    async fn process(&self, id: &ProcessId) -> Result<Option<EngineProcess>> {
        process::find(self, id).await
    }

    async fn processes(&self) -> Result<Vec<ProcessInfo>> {
        process::list(self).await
    }

    async fn read(&self, path: Place<'_>, offset: u64, limit: u64) -> Result<Piece> {
        let koze_protocol::Place { root, path } = path.owned();
        let request = Request::Read(operation::Read { root, path, offset, limit });
        let Answered { result, out, .. } = self.ask::<Size>(request).await?;
        Ok(Piece { bytes: out, size: result.size })
    }

    async fn write(&self, path: Place<'_>, bytes: Vec<u8>, how: Write) -> Result<u64> {
        let koze_protocol::Place { root, path } = path.owned();
        let (append, offset) = match how {
            Write::Replace => (false, None),
            Write::Append => (true, None),
            Write::At(offset) => (true, Some(offset)),
        };
        let request = Request::Write(framed::Write { root, path, append, offset });
        Ok(self.ask_with::<Size>(request, &[&bytes]).await?.result.size)
    }

    async fn edit(&self, path: Place<'_>, edit: &Edit) -> Result<Edited> {
        edit.check().map_err(|why| rejected(why, path.path))?;
        let koze_protocol::Place { root, path } = path.owned();
        let old = edit.old.len() as u64;
        let request = Request::Edit(framed::Edit { root, path, old, all: edit.all });
        Ok(self.ask_with(request, &[&edit.old, &edit.new]).await?.result)
    }

    async fn read_lines(&self, path: Place<'_>, range: LineRange) -> Result<Lines> {
        LineReader::new(range)?;
        let koze_protocol::Place { root, path } = path.owned();
        let request = Request::ReadLines(operation::ReadLines {
            root,
            path,
            first: range.first,
            last: range.last,
            max_chars: u32::try_from(range.max_chars).unwrap_or(u32::MAX),
            verbatim: range.verbatim,
        });
        let Answered { result, out, .. } = self.ask::<request::Lines>(request).await?;
        let request::Lines { chars, past_end, binary, size } = result;
        let text = if binary { Vec::new() } else { out };
        let text = String::from_utf8(text).map_err(|_| unexpected_error())?;
        Ok(Lines { text, chars, past_end, binary, size })
    }

    async fn search(&self, path: Place<'_>, search: &Search) -> Result<Searched> {
        let koze_protocol::Place { root, path } = path.owned();
        let search = search.clone();
        let request = Request::Search(operation::SearchFiles { root, path, search, call: None });
        let found = self.ask::<IgnoredAny>(request).await?;
        serde_json::from_slice(&found.out).map_err(|_| unexpected_error())
    }

    fn archive(&self, path: Place<'_>) -> Tar {
        stream::archive(self.clone(), path.owned())
    }

    async fn extract(&self, path: Place<'_>, tar: Bytes<'_>) -> Result<Contents> {
        stream::extract(self, path.owned(), tar).await
    }

    async fn list(&self, path: Place<'_>) -> Result<Vec<Entry>> {
        let listed = self.ask::<IgnoredAny>(Request::List(path.owned())).await?;
        let entries: Vec<Listed> = serde_json::from_slice(&listed.out).map_err(|_| unexpected_error())?;
        Ok(entries.into_iter().map(|Listed { name, stat }| Entry { name, stat }).collect())
    }

    async fn stat(&self, path: Place<'_>) -> Result<Stat> {
        Ok(self.ask(Request::Stat(path.owned())).await?.result)
    }

    async fn change(&self, change: Change) -> Result<()> {
        self.ask::<IgnoredAny>(Request::Change(change)).await.map(drop)
    }

    /// Copies to another sandbox of an engine as a stream, and to any other in pieces.
    async fn copy_to<T: Sandbox>(&self, from: Place<'_>, to: &T, target: Place<'_>) -> Result<u64> {
        match (to as &dyn std::any::Any).downcast_ref::<EngineSandbox>() {
            Some(to) => stream::copy(self, from.owned(), to, target.owned()).await,
            None => pieces::copy(self, from, to, target).await,
        }
    }

    async fn record_staging(&self, path: &str) -> Result<()> {
        self.change_staging(path, true).await
    }

    async fn forget_staging(&self, path: &str) -> Result<()> {
        self.change_staging(path, false).await
    }

    async fn take_ended_programs(&self) -> Option<EndedPrograms> {
        let ended = self.0.record().ended.clone()?;
        // A record that cannot be written is not worth the failure of a call that succeeded.
        self.0.change_record(|record| record.ended = None).ok()?;
        Some(ended)
    }

    async fn expose(&self, port: u16) -> Result<String> {
        if matches!(*self.0.state.lock().await, State::Destroyed) {
            return Err(inner::destroyed_error());
        }
        preview::expose_port(&self.0, port)
    }

    async fn status(&self) -> Result<Status> {
        match &*self.0.state.lock().await {
            State::Destroyed => return Err(inner::destroyed_error()),
            State::Running(running) if !running.connection.is_closed() => return Ok(Status::Running),
            _ => {}
        }
        let is_claimed = self.0.shared.records.is_claimed(&self.0.id);
        Ok(if is_claimed { Status::Running } else { Status::Sleeping })
    }

    async fn destroy(&self) -> Result<()> {
        let inner = Arc::clone(&self.0);
        runtime::run_to_completion(async move { inner.destroy().await }).await
    }
}

/// An entry of a directory, as the guest lists it.
#[derive(Deserialize)]
struct Listed {
    name: String,
    #[serde(flatten)]
    stat: Stat,
}

/// The error for an answer of the guest that this process does not understand.
fn unexpected_error() -> Error {
    Error::new(Code::Internal, "the guest of the sandbox answered with something unexpected")
}
