//! The connection to the guest of a container, over its attached standard input and output.
//!
//! The guest is not trusted: a violation of the protocol ends the connection, and no answer makes this process keep more than
//! the limits of the protocol.

mod call;
mod listener;
mod tunnel;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::container::{AttachContainerResults, LogOutput};
use futures_util::StreamExt as _;
use koze_core::error::{Code, Error, Result};
use koze_guest::calls::{Calls, Ended};
use koze_guest::frame::{Decoder, Frame, Kind, MAX_FRAME, Violation, encode, encode_text};
use koze_guest::request::{Hello, MAX_REQUEST, PROTOCOL, Request, Welcome};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use self::call::{Answered, Call, parse_answer};
pub(crate) use self::listener::GuestListener;
pub(crate) use self::tunnel::Tunnel;
use crate::runtime;

/// How long the guest has to answer after the start of its container.
const HANDSHAKE: Duration = Duration::from_mins(1);
/// How many lines of the guest's log are kept, for errors.
const MAX_LINES: usize = 8;
/// The longest line that is kept, in bytes.
const MAX_LINE: usize = 400;

/// The connection to a guest. Dropping it closes the standard input of the container, and the guest exits.
#[derive(Debug)]
pub(crate) struct Connection {
    shared: Arc<Shared>,
    /// Frames to send.
    frames: mpsc::UnboundedSender<Vec<u8>>,
    /// The number of the last call. Locked while a call is sent, so that numbers grow on the wire.
    last: Mutex<u32>,
    /// Ends both tasks when it is dropped.
    _open: watch::Sender<()>,
}

/// What the tasks of a connection share with it.
#[derive(Debug, Default)]
struct Shared {
    calls: Calls,
    log: Mutex<VecDeque<String>>,
    /// Why the connection has ended, if anything is known.
    reason: Mutex<Option<Error>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection whose guest has not answered yet.
pub(crate) struct Opening {
    connection: Connection,
    welcome: oneshot::Receiver<Welcome>,
}

impl Connection {
    /// Begins a connection over the streams of a container, which need not run yet.
    pub(crate) fn begin(streams: AttachContainerResults) -> Result<Opening> {
        let shared = Arc::new(Shared::default());
        let (frames, sent) = mpsc::unbounded_channel::<Vec<u8>>();
        let (open, closed) = watch::channel(());
        let (welcomed, welcome) = oneshot::channel();
        let hello = Hello { token: String::new(), protocol: PROTOCOL };
        let hello = serde_json::to_vec(&hello).map_err(internal)?;
        // The channel was created above.
        let _ = frames.send(encode(0, Kind::Hello, &hello));
        let AttachContainerResults { output, input } = streams;
        let runtime = runtime::handle()?;
        runtime.spawn(write_frames(input, sent, closed.clone()));
        let reading = Arc::clone(&shared);
        runtime.spawn(async move {
            let mut closed = closed;
            let ended = tokio::select! {
                ended = read_frames(output, &reading, welcomed) => ended,
                _ = closed.changed() => Ended::Closed,
            };
            reading.calls.end(ended);
        });
        let connection = Connection { shared, frames, last: Mutex::new(0), _open: open };
        Ok(Opening { connection, welcome })
    }

    /// Starts a call.
    ///
    /// # Errors
    /// If the connection has ended, or the request is too long.
    pub(crate) fn call(self: &Arc<Self>, request: &Request) -> Result<Call> {
        let request = serde_json::to_vec(request).map_err(internal)?;
        if request.len() > MAX_REQUEST {
            let message = "the request is too long: write long texts to files first";
            return Err(Error::new(Code::TooLarge, message));
        }
        let (sender, events) = mpsc::unbounded_channel();
        let mut last = lock(&self.last);
        let number = last.checked_add(1).ok_or_else(|| self.ended_error(Ended::Closed))?;
        let sink = move |event| drop(sender.send(event));
        self.shared.calls.add(number, Box::new(sink)).map_err(|ended| self.ended_error(ended))?;
        *last = number;
        self.send(encode_text(number, Kind::Request, &request));
        drop(last);
        Ok(Call::new(Arc::clone(self), number, events))
    }

    fn send(&self, frames: Vec<u8>) {
        // Without the task that sends them, the connection has ended, and so do its calls.
        let _ = self.frames.send(frames);
    }

    /// Returns whether the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.calls.is_closed()
    }

    /// Ends the connection and its calls, with this reason.
    pub(crate) fn end(&self, reason: Error) {
        lock(&self.shared.reason).get_or_insert(reason);
        self.shared.calls.end(Ended::Closed);
    }

    /// Returns the last lines of the guest's log, on one line.
    pub(crate) fn log(&self) -> String {
        lock(&self.shared.log).iter().map(String::as_str).collect::<Vec<_>>().join("; ")
    }

    fn ended_error(&self, ended: Ended) -> Error {
        if let Some(reason) = lock(&self.shared.reason).clone() {
            return reason;
        }
        match ended {
            Ended::Closed => closed_error(),
            Ended::Violation(rule) => {
                let message = format!(
                    "the connection to the sandbox was closed, because its guest violated the protocol: {rule}. The next call starts the sandbox again"
                );
                Error::new(Code::Unavailable, message)
            }
        }
    }
}

/// The error of calls whose connection ended without a known reason.
pub(crate) fn closed_error() -> Error {
    let message = "the container of this sandbox stopped during the call: the next call starts it again; its files are kept, its programs have ended";
    Error::new(Code::Unavailable, message)
}

impl Opening {
    /// Waits until the guest answers.
    ///
    /// # Errors
    /// If it does not, or speaks another version of the protocol. The second part is the end of its log.
    pub(crate) async fn finish(self) -> std::result::Result<Connection, (Error, String)> {
        let failed = |text: String| Error::new(Code::Unavailable, text);
        let error = match tokio::time::timeout(HANDSHAKE, self.welcome).await {
            Ok(Ok(Welcome { protocol: PROTOCOL, .. })) => return Ok(self.connection),
            Ok(Ok(other)) => failed(format!(
                "the guest in the container is of koze {}, which speaks another protocol: destroy the sandbox, and create it again",
                other.version
            )),
            Ok(Err(_)) => failed("the container stopped before its guest answered".to_owned()),
            Err(_) => failed(format!(
                "the guest in the container did not answer in {} seconds",
                HANDSHAKE.as_secs()
            )),
        };
        Err((error, self.connection.log()))
    }
}

fn internal(error: serde_json::Error) -> Error {
    Error::new(Code::Internal, "a message to the guest cannot be written").with_source(error)
}

/// Sends frames until the connection ends.
async fn write_frames(
    mut input: std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>,
    mut frames: mpsc::UnboundedReceiver<Vec<u8>>,
    mut closed: watch::Receiver<()>,
) {
    let sending = async {
        while let Some(frame) = frames.recv().await {
            if input.write_all(&frame).await.is_err() || input.flush().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = sending => {}
        _ = closed.changed() => {}
    }
    // The end of its input lets the guest exit.
    let _ = input.shutdown().await;
}

/// Passes the frames of the guest on to their calls, until they end.
async fn read_frames(
    mut output: std::pin::Pin<
        Box<dyn futures_util::Stream<Item = std::result::Result<LogOutput, bollard::errors::Error>> + Send>,
    >,
    shared: &Shared,
    welcomed: oneshot::Sender<Welcome>,
) -> Ended {
    let mut decoder = Decoder::new(MAX_FRAME);
    let mut welcomed = Some(welcomed);
    let mut pass_on = |frame: &Frame<'_>| match welcomed.take() {
        None => shared.calls.pass_on(frame),
        Some(welcomed) if (frame.call, frame.kind) == (0, Kind::Welcome) => {
            let welcome = serde_json::from_slice(frame.payload);
            let welcome = welcome.map_err(|_| Violation("the welcome is not valid"))?;
            // Nobody waits any more for a guest that is too slow.
            let _ = welcomed.send(welcome);
            Ok(())
        }
        Some(_) => Err(Violation("the first frame is not a welcome")),
    };
    while let Some(Ok(part)) = output.next().await {
        let mut bytes = match part {
            LogOutput::StdOut { message } => message,
            LogOutput::StdErr { message } => {
                shared.add_to_log(&message);
                continue;
            }
            LogOutput::StdIn { .. } => continue,
            LogOutput::Console { .. } => return Ended::Violation("the engine sent output without a header"),
        };
        while !bytes.is_empty() {
            let space = decoder.space();
            let length = bytes.len().min(space.len());
            space[..length].copy_from_slice(&bytes.split_to(length));
            decoder.filled(length);
            loop {
                let passed = match decoder.next() {
                    Ok(None) => break,
                    Ok(Some(frame)) => pass_on(&frame),
                    Err(violation) => Err(violation),
                };
                if let Err(Violation(rule)) = passed {
                    return Ended::Violation(rule);
                }
            }
        }
    }
    Ended::Closed
}

impl Shared {
    /// Keeps the last lines that the guest prints.
    fn add_to_log(&self, bytes: &[u8]) {
        let mut log = lock(&self.log);
        for line in String::from_utf8_lossy(bytes).lines() {
            let line: String = line.chars().filter(|char| !char.is_control()).take(MAX_LINE).collect();
            log.push_back(line);
            if log.len() > MAX_LINES {
                log.pop_front();
            }
        }
    }
}
