//! A sandbox behind a Durable Object.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{LocalBoxFuture, join};
use serde::de::DeserializeOwned;
use worker::send::SendFuture;
use worker::wasm_bindgen::JsValue;

use super::call::{self, Call, Sent};
use super::contract::{self, LARGEST_PIECE, Nothing};
use super::object::{Answer, Object, Refused, WITHIN, wrong_reply};
use super::process::{self, CloudflareProcess};
use super::waiting::Waiting;
use super::{Cloudflare, archive, known, stream, write};
use koze_core::archive::{Bytes, Contents, Tar};
use koze_core::contract::MAX_SAFE_INTEGER;
use koze_core::error::{Code, Error, Result};
use koze_core::id::SandboxId;
use koze_core::maybe_send::MaybeSend;
use koze_core::sandbox::{
    Capabilities, Change, Command, Edit, Edited, EndedPrograms, Entry, LineRange, LineReader, Lines, Output,
    Piece, Place, ProcessId, ProcessInfo, Program, Sandbox, Search, Searched, Stat, Status, Write, rejected,
};
use koze_core::search::by_operations;
use koze_core::time::{millis, now};
use koze_core::transfer::pieces;

/// A sandbox behind a Durable Object. Clones refer to the same sandbox.
#[derive(Debug, Clone)]
pub struct CloudflareSandbox {
    object: Object,
    origin: Origin,
    /// Whether the last program's answer said that no programs ended before it. After a start, this is unknown.
    nothing_ended: Arc<AtomicBool>,
}

/// The timeout of asking for ended programs, which starts nothing. An answer of a tool waits for it.
const TAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How a sandbox was addressed.
#[derive(Debug, Clone)]
enum Origin {
    /// By its key in the namespace of a class.
    Key,
    /// As a sandbox of a session.
    Session(Box<Member>),
}

/// A sandbox of a session.
#[derive(Debug, Clone)]
struct Member {
    provider: Cloudflare,
    id: SandboxId,
    class: usize,
}

impl CloudflareSandbox {
    /// Returns the sandbox whose object has this name.
    pub(crate) fn of_key(namespace: worker::ObjectNamespace, key: &str) -> Self {
        CloudflareSandbox {
            object: Object::new(namespace, key),
            origin: Origin::Key,
            nothing_ended: Arc::default(),
        }
    }

    /// Returns a sandbox of a session in this class.
    pub(super) fn of_session(provider: &Cloudflare, id: &SandboxId, class: usize) -> Result<Self> {
        let object = provider.object(id, class)?;
        let member = Member { provider: provider.clone(), id: id.clone(), class };
        let origin = Origin::Session(Box::new(member));
        Ok(CloudflareSandbox { object, origin, nothing_ended: Arc::default() })
    }

    /// Calls the object. If it is not open, because it was never opened or was destroyed elsewhere, opens it and calls
    /// again.
    fn call<T: DeserializeOwned>(
        &self,
        call: Answer<Call<T>>,
    ) -> impl Future<Output = Result<T>> + MaybeSend {
        SendFuture::new(async move { self.ask(call).await.map_err(Error::from) })
    }

    /// The same, with the original refusal.
    pub(super) async fn ask<T: DeserializeOwned>(&self, call: Answer<Call<T>>) -> Answer<T> {
        let call = call?;
        call.decode(self.send(&call.sent).await?)
    }

    /// Calls the object. One that is not open stays so.
    pub(super) async fn ask_the_open<T: DeserializeOwned>(&self, call: Answer<Call<T>>) -> Answer<T> {
        let call = call?;
        call.decode(self.send_to_the_open(&call.sent).await?)
    }

    /// Calls the object, and opens it first if it is not open. Boxed as [`Object::send`].
    fn send<'a>(&'a self, call: &'a Sent) -> LocalBoxFuture<'a, Answer<JsValue>> {
        Box::pin(async {
            match self.send_to_the_open(call).await {
                Err(Refused::Unopened) => self.open().await.map_err(Refused::Error)?.send(call).await,
                answer => answer,
            }
        })
    }

    async fn send_to_the_open(&self, call: &Sent) -> Answer<JsValue> {
        let record_use = async {
            if let Origin::Session(member) = &self.origin
                && known::should_record_use(&member.id, now())
            {
                member.provider.record_use(&member.id).await;
            }
        };
        join(self.object.send(call), record_use).await.0
    }

    /// Returns the object.
    pub(super) fn object(&self) -> &Object {
        &self.object
    }

    /// Returns the name of the call that this sandbox is used for, by which it can be canceled.
    pub(super) fn call_name(&self) -> Option<String> {
        match &self.origin {
            Origin::Key => None,
            Origin::Session(member) => member.provider.shared.call.clone(),
        }
    }

    /// Reopens the sandbox when its object is not open.
    pub(super) async fn open(&self) -> Result<Object> {
        match &self.origin {
            Origin::Key => {
                let open = contract::Open { sleep_after_ms: None, image: None, size: None };
                self.object.call(call::open(&open, WITHIN)).await?;
                Ok(self.object.clone())
            }
            Origin::Session(member) => member.provider.reopen(&member.id, member.class).await,
        }
    }

    /// Reads part of a file in one call.
    async fn read_piece(&self, place: Place<'_>, offset: u64, limit: u64) -> Result<contract::Piece> {
        let limit = limit.min(LARGEST_PIECE.into());
        let offset = offset.min(MAX_SAFE_INTEGER);
        let input = contract::Read { root: place.root.into(), path: place.path.into(), offset, limit };
        self.call(call::read(&input, WITHIN)).await
    }

    /// Writes a file in one call.
    pub(super) async fn write_once(&self, place: Place<'_>, bytes: Vec<u8>, how: Write) -> Result<u64> {
        let (append, offset) = match how {
            Write::Replace => (false, None),
            Write::Append => (true, None),
            Write::At(offset) => (true, Some(offset)),
        };
        let (root, path) = (place.root.into(), place.path.into());
        let input = contract::Write { root, path, bytes: bytes.into(), append, offset };
        Ok(self.call(call::write(&input, WITHIN)).await?.size)
    }
}

impl Sandbox for CloudflareSandbox {
    type Process = CloudflareProcess;

    fn capabilities(&self) -> Capabilities {
        Capabilities { exec: true, expose: matches!(self.origin, Origin::Session(_)) }
    }

    async fn exec(&self, command: Command) -> Result<Output> {
        let within = command.timeout.saturating_add(WITHIN);
        let input = contract::Exec {
            argv: command.argv,
            working_dir: command.working_dir,
            env: command.env,
            timeout_ms: u32::try_from(millis(command.timeout)).unwrap_or(u32::MAX),
            max_output: u32::try_from(command.max_output).unwrap_or(u32::MAX),
            call: self.call_name(),
        };
        let exec = async {
            // Dropped with the call, which cancels the program.
            let waiting = Waiting::new();
            self.ask(call::exec(&input, waiting.function(), within)).await
        };
        let output = SendFuture::new(exec).await?;
        self.nothing_ended.store(!output.ended, Ordering::Relaxed);
        Ok(Output {
            stdout: output.stdout.into_vec(),
            stderr: output.stderr.into_vec(),
            exit_code: output.exit_code,
            timed_out: output.timed_out,
        })
    }

    async fn start(&self, program: Program) -> Result<CloudflareProcess> {
        self.nothing_ended.store(false, Ordering::Relaxed);
        SendFuture::new(process::start(self, program)).await
    }

    async fn process(&self, id: &ProcessId) -> Result<Option<CloudflareProcess>> {
        SendFuture::new(process::find(self, id)).await
    }

    async fn processes(&self) -> Result<Vec<ProcessInfo>> {
        SendFuture::new(process::list(self)).await
    }

    async fn read(&self, path: Place<'_>, offset: u64, limit: u64) -> Result<Piece> {
        let mut bytes = Vec::new();
        loop {
            let got = bytes.len() as u64;
            let piece = self.read_piece(path, offset.saturating_add(got), limit - got).await?;
            // The rest of another file must not follow the beginning of this one.
            if got > 0 && piece.size < offset.saturating_add(got) {
                let message = format!("`{}` was replaced while it was read: try again", path.path);
                return Err(Error::new(Code::Unavailable, message));
            }
            let more = piece.bytes.len() == LARGEST_PIECE as usize;
            if bytes.is_empty() {
                bytes = piece.bytes.into_vec();
            } else {
                bytes.extend_from_slice(&piece.bytes);
            }
            if !more || bytes.len() as u64 >= limit {
                return Ok(Piece { bytes, size: piece.size });
            }
        }
    }

    async fn write(&self, path: Place<'_>, bytes: Vec<u8>, how: Write) -> Result<u64> {
        if bytes.len() > LARGEST_PIECE as usize {
            return write::in_pieces(self, path, &bytes, how).await;
        }
        self.write_once(path, bytes, how).await
    }

    async fn edit(&self, path: Place<'_>, edit: &Edit) -> Result<Edited> {
        edit.check().map_err(|why| rejected(why, path.path))?;
        let input = contract::Edit {
            root: path.root.into(),
            path: path.path.into(),
            old: edit.old.clone().into(),
            new: edit.new.clone().into(),
            all: edit.all,
        };
        self.call(call::edit(&input, WITHIN)).await
    }

    async fn read_lines(&self, path: Place<'_>, range: LineRange) -> Result<Lines> {
        LineReader::new(range)?;
        let input = contract::ReadLines {
            root: path.root.into(),
            path: path.path.into(),
            first: range.first.min(MAX_SAFE_INTEGER),
            last: range.last.map(|last| last.min(MAX_SAFE_INTEGER)),
            max_chars: u32::try_from(range.max_chars).unwrap_or(u32::MAX),
            verbatim: range.verbatim,
        };
        let lines = self.call(call::read_lines(&input, WITHIN)).await?;
        let wrong = |_| wrong_reply("read_lines", &"the text is not UTF-8");
        Ok(Lines {
            text: String::from_utf8(lines.text.into_vec()).map_err(wrong)?,
            chars: lines.chars,
            past_end: lines.past_end,
            binary: lines.binary,
            size: lines.size,
        })
    }

    async fn search(&self, path: Place<'_>, search: &Search) -> Result<Searched> {
        let input = contract::SearchFiles {
            root: path.root.into(),
            path: path.path.into(),
            search: search.clone(),
            call: self.call_name(),
        };
        let within = Duration::from_millis(search.timeout_ms.into()).saturating_add(WITHIN);
        let found = async {
            // Dropped with the call, which ends the search.
            let waiting = Waiting::new();
            self.ask(call::search(&input, waiting.function(), within)).await
        };
        match SendFuture::new(found).await {
            Err(Refused::Unstreamed) => by_operations(self, path, search).await,
            found => Ok(found?),
        }
    }

    /// Archives in one call, if the class and the container support it.
    fn archive(&self, path: Place<'_>) -> Tar {
        archive::pack(self.clone(), path.owned())
    }

    /// Creates the files in two calls, if the class and the container support it.
    async fn extract(&self, path: Place<'_>, tar: Bytes<'_>) -> Result<Contents> {
        SendFuture::new(archive::unpack(self, path, tar)).await
    }

    async fn list(&self, path: Place<'_>) -> Result<Vec<Entry>> {
        let input = path.owned();
        Ok(self.call(call::list(&input, WITHIN)).await?.entries)
    }

    async fn stat(&self, path: Place<'_>) -> Result<Stat> {
        let input = path.owned();
        self.call(call::stat(&input, WITHIN)).await
    }

    async fn change(&self, change: Change) -> Result<()> {
        self.call(call::change(&change, WITHIN)).await.map(drop)
    }

    /// Copies to another sandbox of a Worker as a stream if both classes support it, otherwise in pieces.
    async fn copy_to<T: Sandbox>(&self, from: Place<'_>, to: &T, target: Place<'_>) -> Result<u64> {
        if let Some(to) = (to as &dyn Any).downcast_ref::<CloudflareSandbox>() {
            let copied = SendFuture::new(stream::copy(self, from, to, target)).await?;
            if let Some(bytes) = copied {
                return Ok(bytes);
            }
        }
        pieces::copy(self, from, to, target).await
    }

    /// Asks the object only if it may have something to say.
    async fn take_ended_programs(&self) -> Option<EndedPrograms> {
        if self.nothing_ended.swap(true, Ordering::Relaxed) {
            return None;
        }
        // A class of an older koze does not know the operation.
        SendFuture::new(self.ask_the_open(call::take_ended(&Nothing {}, TAKE_TIMEOUT))).await.ok()?.ended
    }

    async fn expose(&self, port: u16) -> Result<String> {
        let Origin::Session(member) = &self.origin else {
            let message =
                "a sandbox addressed by key has no preview URL: get it from a session with `env.session`";
            return Err(Error::new(Code::Unsupported, message));
        };
        // Before the port is opened, so that an unreachable port is not opened.
        let preview = member.provider.preview(&member.id, member.class, port)?;
        let input = contract::Expose { port };
        let exposed = self.call(call::expose(&input, WITHIN)).await?;
        let wrong = || wrong_reply("expose", &"the nonce is not valid").into();
        preview.url(&exposed.nonce).ok_or_else(wrong)
    }

    async fn status(&self) -> Result<Status> {
        let state = SendFuture::new(self.object.call(call::status(&Nothing {}, WITHIN))).await?;
        if state.opened { Ok(state.status) } else { Err(Refused::Unopened.into()) }
    }

    async fn destroy(&self) -> Result<()> {
        SendFuture::new(self.object.call(call::destroy(&Nothing {}, WITHIN))).await?;
        match &self.origin {
            Origin::Key => Ok(()),
            Origin::Session(member) => member.provider.forget(&member.id).await,
        }
    }
}
