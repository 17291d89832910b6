//! Passes bytes and messages between a WebSocket and a terminal.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::body::Bytes;
use koze_core::http::{ErrorBody, ProcessExit, TerminalRequest};
use koze_core::{Code, Error};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

use super::pty::{Pty, Window};
use crate::provider::AttachedStreams;
use crate::session::exec::{Attending, Reports};

/// How much output a message has at most, in bytes.
const PIECE: usize = 16 << 10;
/// How many messages of the client wait for programs that read no input. The client then has to wait.
const AHEAD: usize = 16;
/// The pause between two pings.
const PING: Duration = Duration::from_secs(20);
/// How long a client may be silent, although it has to answer pings.
const SILENCE: Duration = Duration::from_mins(1);
/// How much output is read after the shell has ended, in bytes: more than a terminal holds. Programs in the background could go on
/// printing.
const REST: usize = 1 << 20;
/// How long the client has to read the last messages.
const CLOSE_TIME: Duration = Duration::from_secs(10);
/// How long a message that is too large is still received: a connection that is closed before loses the last messages.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Why a terminal is closed.
enum End {
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
pub(super) async fn pass<S: AsyncRead + AsyncWrite + Unpin>(socket: WebSocketStream<S>, shell: Attending) {
    // The supervisor kills the shell when these are dropped.
    let Attending { streams, mut reports, tells: _tells } = shell;
    let (mut sink, mut stream) = socket.split();
    let end = match open_terminal(streams) {
        Ok(Pty { output, input, window }) => {
            let (typed, waiting) = mpsc::channel(AHEAD);
            let (pause, paused) = watch::channel(false);
            let targets = Targets { typed, pause, window: &window };
            tokio::select! {
                end = send_output(&mut sink, (output, &window), paused, &mut reports) => end,
                end = receive_messages(&mut stream, targets) => end,
                never = type_input(input, waiting) => match never {},
            }
        }
        Err(error) => End::Failed(error),
    };
    let _ = timeout(CLOSE_TIME, close(sink, stream, end)).await;
}

fn open_terminal(streams: AttachedStreams) -> Result<Pty, Error> {
    let AttachedStreams::Terminal(terminal) = streams else { unreachable!("a terminal was requested") };
    Pty::new(terminal).map_err(|error| {
        Error::new(Code::Unavailable, format!("the system is out of resources: {error}")).with_source(error)
    })
}

/// Sends what the programs print until the shell ends.
async fn send_output<S: AsyncRead + AsyncWrite + Unpin>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    (mut output, window): (Receiver, &Window),
    mut paused: watch::Receiver<bool>,
    reports: &mut Reports,
) -> End {
    let mut buffer = vec![0; PIECE];
    let mut pings = interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut report = pin!(reports.wait());
    let mut is_open = true;
    let exit = loop {
        let is_paused = *paused.borrow_and_update();
        let message = tokio::select! {
            // Nothing is sent once a pause was received.
            biased;
            Ok(()) = paused.changed() => continue,
            exit = &mut report => break exit,
            _ = pings.tick() => Message::Ping(Bytes::new()),
            read = output.read(&mut buffer), if is_open && !is_paused => {
                let Ok(read @ 1..) = read else {
                    is_open = false;
                    continue;
                };
                Message::binary(buffer[..read].to_vec())
            }
        };
        if sink.send(message).await.is_err() {
            return End::Gone;
        }
    };
    let mut rest = 0;
    while rest < REST {
        let read = window.read_rest(&mut buffer);
        if read == 0 || sink.send(Message::binary(buffer[..read].to_vec())).await.is_err() {
            break;
        }
        rest += read;
    }
    match exit {
        Ok((exit_code, _)) => End::Exited(ProcessExit { exit_code }),
        Err(error) => End::Failed(error),
    }
}

/// Where the messages of the client go.
struct Targets<'a> {
    typed: mpsc::Sender<Bytes>,
    pause: watch::Sender<bool>,
    window: &'a Window,
}

/// Receives the messages of the client until it is gone.
async fn receive_messages<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut SplitStream<WebSocketStream<S>>,
    targets: Targets<'_>,
) -> End {
    loop {
        match timeout(SILENCE, stream.next()).await {
            Ok(Some(Ok(Message::Binary(bytes)))) => {
                if targets.typed.send(bytes).await.is_err() {
                    return End::Gone;
                }
            }
            Ok(Some(Ok(Message::Text(text)))) => match TerminalRequest::parse(&text) {
                Ok(TerminalRequest::Resize(size)) => targets.window.resize(size),
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
async fn type_input(mut input: Sender, mut waiting: mpsc::Receiver<Bytes>) -> Infallible {
    while let Some(bytes) = waiting.recv().await {
        // Once the terminal is closed, the end of the shell is about to be reported.
        if input.write_all(&bytes).await.is_err() {
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
