//! Passes bytes and messages between a WebSocket and a terminal.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::body::Bytes;
use koze_core::http::{ErrorBody, ProcessExit, TerminalRequest, WindowSize};
use koze_core::{Code, Error};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

/// How many messages of the client wait for programs that read no input. The client then has to wait.
const AHEAD: usize = 16;
/// The pause between two pings.
const PING: Duration = Duration::from_secs(20);
/// How long a client may be silent, although it has to answer pings.
const SILENCE: Duration = Duration::from_mins(1);
/// How long the client has to read the last messages.
const CLOSE_TIME: Duration = Duration::from_secs(10);
/// How long a message that is too large is still received: a connection that is closed before loses the last messages.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// A shell in a terminal. It is killed when its output is dropped.
pub(in crate::serve) struct Shell<O, I> {
    pub(in crate::serve) output: O,
    pub(in crate::serve) input: I,
    /// Sets the size of the terminal.
    pub(in crate::serve) resize: Box<dyn Fn(WindowSize) + Send + Sync>,
}

/// What the programs in a terminal print.
pub(in crate::serve) trait Output: Send {
    /// Waits for output, or for the end of the shell. Nothing is lost if the future is dropped.
    fn next(&mut self) -> impl Future<Output = Printed> + Send;
}

/// What is typed in a terminal.
pub(in crate::serve) trait Input: Send {
    /// Types bytes, and waits until they are taken. Returns whether the terminal is still open.
    fn write(&mut self, bytes: Bytes) -> impl Future<Output = bool> + Send;
}

/// What a terminal reports.
pub(in crate::serve) enum Printed {
    /// Output.
    Bytes(Bytes),
    /// The end; nothing follows.
    Ended(End),
}

/// Why a terminal is closed.
pub(in crate::serve) enum End {
    /// The shell has ended.
    Exited(ProcessExit),
    /// The client sent a message that is not valid.
    Refused(Error),
    /// The sandbox or this machine failed.
    Failed(Error),
    /// The client is gone.
    Gone,
}

/// Passes bytes and messages until the shell ends or the client is gone. The shell is killed in the second case.
///
/// Nothing is read ahead: while the client reads no output, the programs wait as on any slow terminal.
pub(super) async fn pass<S: AsyncRead + AsyncWrite + Unpin>(
    socket: WebSocketStream<S>,
    shell: Shell<impl Output, impl Input>,
) {
    let Shell { output, input, resize } = shell;
    let (mut sink, mut stream) = socket.split();
    let (typed, waiting) = mpsc::channel(AHEAD);
    let (pause, paused) = watch::channel(false);
    let targets = Targets { typed, pause, resize };
    let end = tokio::select! {
        end = send_output(&mut sink, output, paused) => end,
        end = receive_messages(&mut stream, targets) => end,
        never = type_input(input, waiting) => match never {},
    };
    let _ = timeout(CLOSE_TIME, close(sink, stream, end)).await;
}

/// Sends what the programs print until the shell ends.
async fn send_output<S: AsyncRead + AsyncWrite + Unpin>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    mut output: impl Output,
    mut paused: watch::Receiver<bool>,
) -> End {
    let mut pings = interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_paused = *paused.borrow_and_update();
        let message = tokio::select! {
            // Nothing is sent once a pause was received.
            biased;
            Ok(()) = paused.changed() => continue,
            _ = pings.tick() => Message::Ping(Bytes::new()),
            printed = output.next(), if !is_paused => match printed {
                Printed::Bytes(bytes) => Message::Binary(bytes),
                Printed::Ended(end) => return end,
            },
        };
        if sink.send(message).await.is_err() {
            return End::Gone;
        }
    }
}

/// Where the messages of the client go.
struct Targets {
    typed: mpsc::Sender<Bytes>,
    pause: watch::Sender<bool>,
    resize: Box<dyn Fn(WindowSize) + Send + Sync>,
}

/// Receives the messages of the client until it is gone.
async fn receive_messages<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut SplitStream<WebSocketStream<S>>,
    targets: Targets,
) -> End {
    loop {
        match timeout(SILENCE, stream.next()).await {
            Ok(Some(Ok(Message::Binary(bytes)))) => {
                if targets.typed.send(bytes).await.is_err() {
                    return End::Gone;
                }
            }
            Ok(Some(Ok(Message::Text(text)))) => match TerminalRequest::parse(&text) {
                Ok(TerminalRequest::Resize(size)) => (targets.resize)(size),
                Ok(TerminalRequest::Pause(is_paused)) => drop(targets.pause.send(is_paused)),
                Err(error) => return End::Refused(error),
            },
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => {}
            Ok(Some(Err(SocketError::Capacity(_)))) => {
                let message = format!("a message must have at most {} bytes", super::MAX_MESSAGE);
                return End::Refused(Error::new(Code::TooLarge, message));
            }
            Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) | Err(_) => return End::Gone,
        }
    }
}

/// Types what the client sent.
async fn type_input(mut input: impl Input, mut waiting: mpsc::Receiver<Bytes>) -> Infallible {
    while let Some(bytes) = waiting.recv().await {
        // Once the terminal is closed, the end of the shell is about to be reported.
        if !input.write(bytes).await {
            break;
        }
    }
    std::future::pending().await
}

/// Sends the last messages, and waits until the client has read them.
async fn close<S: AsyncRead + AsyncWrite + Unpin>(
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    mut stream: SplitStream<WebSocketStream<S>>,
    end: End,
) {
    let is_too_large = matches!(&end, End::Refused(error) if error.code == Code::TooLarge);
    let (text, code) = match end {
        End::Exited(exit) => (to_text(&exit), CloseCode::Normal),
        End::Refused(error) => (describe(&error), CloseCode::Policy),
        End::Failed(error) => (describe(&error), CloseCode::Error),
        End::Gone => {
            let _ = sink.close().await;
            return;
        }
    };
    let frame = CloseFrame { code, reason: "".into() };
    if sink.send(Message::text(text)).await.is_ok() && sink.send(Message::Close(Some(frame))).await.is_ok() {
        while let Some(Ok(_)) = stream.next().await {}
    }
    if let (true, Ok(mut socket)) = (is_too_large, sink.reunite(stream)) {
        let mut nowhere = tokio::io::sink();
        let _ = timeout(DRAIN_TIME, tokio::io::copy(socket.get_mut(), &mut nowhere)).await;
    }
}

fn describe(error: &Error) -> String {
    to_text(&ErrorBody::new(error.code.as_str(), error.message.clone()))
}

fn to_text(body: &impl Serialize) -> String {
    serde_json::to_string(body).expect("a message is plain data")
}
