//! One running browser: messages over its pipes, each of which ends with a zero byte.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use koze_guest::message::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;

use super::connection::Connection;
use crate::engine::engine;
use crate::sandbox::inner::Use;
use crate::sandbox::running::Running;
use koze_core::error::{Code, Error, Result};
use koze_core::script::MAX_MESSAGE;
use koze_egress::Refusals;

/// The maximum number of buffered messages. When the buffer is full, the browser waits.
const WAITING: usize = 64;
/// The number of bytes of the browser's standard error that are kept, and that an error message shows.
const PRINTED: usize = 4 << 10;
const SHOWN: usize = 300;

/// The pipes of a running browser.
#[derive(Debug)]
pub(super) struct Pipes {
    running: Arc<Running>,
    outgoing: mpsc::UnboundedSender<String>,
    shared: Arc<Common>,
    /// The next step after a certificate of an unknown authority.
    hint: Option<&'static str>,
}

/// The state that a connection shares with the tasks of the pipes.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// Receives the messages of the browser while a client is connected.
    receiver: Mutex<Option<mpsc::Sender<String>>>,
    has_ended: AtomicBool,
    /// Whether the browser has sent a message yet.
    has_begun: AtomicBool,
    /// The reason why koze has ended it.
    reason: Mutex<Option<&'static str>>,
    /// The end of its standard error.
    printed: Mutex<Vec<u8>>,
}

impl Pipes {
    /// Starts the browser in its sandbox. Call this on the engine.
    pub(super) async fn start(
        running: Arc<Running>,
        command: Vec<String>,
        environment: Vec<(String, String)>,
        hint: Option<&'static str>,
    ) -> Result<Self> {
        let failed = |error: io::Error| {
            Error::new(Code::Unavailable, format!("the browser cannot be started: {error}"))
                .with_source(error)
        };
        let open = || -> io::Result<_> {
            let (stdin, input) = running.pipe()?;
            let (output, stdout) = running.pipe()?;
            let (errors, stderr) = running.pipe()?;
            Ok((pipe_sender(input)?, pipe_receiver(output)?, pipe_receiver(errors)?, [stdin, stdout, stderr]))
        };
        let (input, output, errors, inside) = open().map_err(failed)?;
        let request = Request::Start {
            argv: command,
            cwd: "/dev/shm".to_owned(),
            env: environment,
            terminal: false,
            // The end of the browser closes its pipes, which is how koze notices it.
            ends: running.number(),
        };
        let descriptors: Vec<_> = inside.iter().map(AsFd::as_fd).collect();
        running.call_with(&request, &descriptors).await?;
        drop(inside);
        let shared = Arc::<Common>::default();
        let (outgoing, messages) = mpsc::unbounded_channel();
        let engine = engine()?;
        engine.spawn(send_messages(input, messages));
        engine.spawn(follow_errors(errors, Arc::clone(&shared)));
        let (of_reader, of_running) = (Arc::clone(&shared), Arc::downgrade(&running));
        engine.spawn(async move {
            if receive_messages(output, &of_reader).await.is_err() {
                *lock_mutex(&of_reader.reason) = Some("the page returned more than 16 MiB at once");
            }
            of_reader.has_ended.store(true, Ordering::Release);
            // The browser is stopped, and the next call starts a new one.
            if let Some(running) = of_running.upgrade() {
                running.end().await;
            }
            lock_mutex(&of_reader.receiver).take();
        });
        Ok(Pipes { running, outgoing, shared, hint })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.running.has_ended() || self.shared.has_ended.load(Ordering::Acquire)
    }

    /// Connects to the browser. There is only one connection at a time.
    pub(super) fn connect(&self, refusals: &Arc<Refusals>, using: Use) -> Connection {
        let (receiver, incoming) = mpsc::channel(WAITING);
        *lock_mutex(&self.shared.receiver) = Some(receiver);
        let judged_before = self.running.judgements.so_far();
        Connection::new(self.outgoing.clone(), incoming, Arc::clone(&self.shared), refusals, using, {
            let running = Arc::downgrade(&self.running);
            Box::new(move || running.upgrade()?.judgements.by_watch_since(judged_before))
        })
        .with_hint(self.hint)
    }
}

impl Common {
    /// Ends the connection.
    pub(super) fn disconnect(&self) {
        lock_mutex(&self.receiver).take();
    }

    /// Returns the error for a browser that has ended. `judged` is why its sandbox's programs were killed.
    pub(super) fn ended(&self, judged: Option<String>) -> Error {
        let reason = judged.or_else(|| lock_mutex(&self.reason).map(str::to_owned));
        let begun = self.has_begun.load(Ordering::Acquire);
        let printed = String::from_utf8_lossy(&lock_mutex(&self.printed)).into_owned();
        let printed: String = printed.lines().last().unwrap_or_default().chars().take(SHOWN).collect();
        let text = match reason {
            Some(reason) => {
                format!("the browser was ended: {reason}. Navigate again, which starts a new one")
            }
            None if begun => "the browser has ended: navigate again, which starts a new one".to_owned(),
            None => format!("Chromium does not start in a sandbox of this machine. It says: {printed}"),
        };
        Error::new(Code::Unavailable, text)
    }
}

/// Writes the messages to the browser.
async fn send_messages(mut input: Sender, mut messages: mpsc::UnboundedReceiver<String>) {
    while let Some(message) = messages.recv().await {
        let mut bytes = message.into_bytes();
        bytes.push(0);
        if input.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Reads the messages of the browser until it ends. Fails if one of them is too long.
async fn receive_messages(mut output: Receiver, shared: &Common) -> std::result::Result<(), ()> {
    let mut buffer = Vec::new();
    let mut looked = 0;
    loop {
        buffer.reserve(64 << 10);
        match output.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(_) => {}
        }
        let mut from = 0;
        while let Some(length) = buffer[looked.max(from)..].iter().position(|byte| *byte == 0) {
            let end = looked.max(from) + length;
            let message = String::from_utf8_lossy(&buffer[from..end]).into_owned();
            shared.has_begun.store(true, Ordering::Release);
            let receiver = lock_mutex(&shared.receiver).clone();
            if let Some(receiver) = receiver {
                // If the receiver is gone, the message is not needed.
                let _ = receiver.send(message).await;
            }
            from = end + 1;
        }
        buffer.drain(..from);
        looked = buffer.len();
        if looked > MAX_MESSAGE {
            return Err(());
        }
    }
}

/// Keeps the end of what the browser prints.
async fn follow_errors(mut errors: Receiver, shared: Arc<Common>) {
    let mut chunk = [0; 1024];
    while let Ok(length @ 1..) = errors.read(&mut chunk).await {
        let mut printed = lock_mutex(&shared.printed);
        printed.extend_from_slice(&chunk[..length]);
        let over = printed.len().saturating_sub(PRINTED);
        printed.drain(..over);
    }
}

fn pipe_sender(pipe: OwnedFd) -> io::Result<Sender> {
    let _engine = engine().map_err(io::Error::other)?.enter();
    Sender::from_owned_fd(pipe)
}

fn pipe_receiver(pipe: OwnedFd) -> io::Result<Receiver> {
    let _engine = engine().map_err(io::Error::other)?.enter();
    Receiver::from_owned_fd(pipe)
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
