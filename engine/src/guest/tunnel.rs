//! A connection in a container as a byte stream: streams 0 and 1 of a call of the guest.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use koze_core::error::{Code, Error, Result};
use koze_guest::calls::Event;
use koze_guest::request::{Port, Request};
use serde::de::IgnoredAny;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;

use super::{Call, Connection, parse_answer};
use crate::runtime;

/// The stream without bytes, whose end says that the connection exists.
const CONNECTED: u8 = 2;
/// How long a connection that was closed here may take to send what it has to its peer.
const LINGER: Duration = Duration::from_secs(30);

/// A connection in a container. One task must do both reading and writing. A connection that was shut down before it is dropped
/// still sends what was written; another one is reset.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// `None` only while it is dropped.
    call: Option<Call>,
    arrived: VecDeque<Vec<u8>>,
    /// How many bytes of the first piece were read.
    read: usize,
    has_read_end: bool,
    has_written_end: bool,
    /// The answer, which is the end of both directions.
    over: Option<std::result::Result<(), io::ErrorKind>>,
    wakers: [Option<Waker>; 2],
    /// Held as long as the connection is open.
    permit: Option<OwnedSemaphorePermit>,
}

impl Tunnel {
    /// Waits for a program that connects to a port on which the guest listens.
    pub(crate) async fn accept(connection: &Arc<Connection>, port: u16) -> Result<Self> {
        Self::open(connection, &Request::Accept(Port { port })).await
    }

    /// Connects to a server in the container.
    ///
    /// # Errors
    /// [`Code::NotFound`] if nothing listens on the port.
    pub(crate) async fn connect(connection: &Arc<Connection>, port: u16) -> Result<Self> {
        Self::open(connection, &Request::Connect(Port { port })).await
    }

    async fn open(connection: &Arc<Connection>, request: &Request) -> Result<Self> {
        let mut call = connection.call(request)?;
        loop {
            match call.next().await? {
                Event::End(CONNECTED) => break,
                Event::Answer(answer) => {
                    parse_answer::<IgnoredAny>(answer)?;
                    let message = "the guest of the sandbox answered before there was a connection";
                    return Err(Error::new(Code::Internal, message));
                }
                // Nothing is sent before there is a connection.
                _ => {}
            }
        }
        Ok(Tunnel {
            call: Some(call),
            arrived: VecDeque::new(),
            read: 0,
            has_read_end: false,
            has_written_end: false,
            over: None,
            wakers: [None, None],
            permit: None,
        })
    }

    /// Holds a permit as long as the connection is open.
    pub(crate) fn hold_permit(&mut self, permit: OwnedSemaphorePermit) {
        self.permit = Some(permit);
    }

    /// Processes the next event of the call.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(call) = &mut self.call else { return Poll::Ready(()) };
        match ready!(call.poll_next(cx)) {
            Ok(Event::Data(1, bytes)) => self.arrived.push_back(bytes),
            Ok(Event::End(1)) => self.has_read_end = true,
            Ok(Event::Answer(answer)) => {
                let ended = parse_answer::<IgnoredAny>(answer);
                self.over = Some(ended.map(drop).map_err(|_| io::ErrorKind::ConnectionReset));
            }
            Ok(_) => {}
            Err(_) => self.over = Some(Err(io::ErrorKind::ConnectionAborted)),
        }
        // The event may be what the other direction waits for.
        self.wakers.iter_mut().filter_map(Option::take).for_each(Waker::wake);
        Poll::Ready(())
    }

    /// Copies bytes that have arrived. Lets the guest send as many more once a piece was read. Returns whether there were any.
    fn take_arrived(&mut self, to: &mut ReadBuf<'_>) -> bool {
        let Some(piece) = self.arrived.front() else { return false };
        let rest = &piece[self.read..];
        let length = rest.len().min(to.remaining());
        to.put_slice(&rest[..length]);
        self.read += length;
        let size = piece.len();
        if self.read == size {
            self.arrived.pop_front();
            self.read = 0;
            if let Some(call) = &self.call {
                call.grant(1, size);
            }
        }
        true
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.take_arrived(to) || self.has_read_end {
                return Poll::Ready(Ok(()));
            }
            if let Some(over) = self.over {
                return Poll::Ready(over.map_err(io::Error::from));
            }
            if self.poll_event(cx).is_pending() {
                self.wakers[0] = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            if self.over.is_some() || self.has_written_end {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            let written = self.call.as_ref().map_or(0, |call| call.write_piece(bytes));
            if written > 0 || bytes.is_empty() {
                return Poll::Ready(Ok(written));
            }
            if self.poll_event(cx).is_pending() {
                self.wakers[1] = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.has_written_end {
            self.has_written_end = true;
            if let Some(call) = &self.call {
                call.end();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        if self.over.is_some() || !self.has_written_end {
            return;
        }
        if let Ok(runtime) = runtime::handle() {
            runtime.spawn(tokio::time::timeout(LINGER, finish_sending(call)));
        }
    }
}

/// Waits until both directions have ended. What still arrives is dropped.
async fn finish_sending(mut call: Call) {
    while let Ok(event) = call.next().await {
        match event {
            Event::Data(stream, bytes) => call.grant(stream, bytes.len()),
            Event::Answer(_) => return,
            Event::End(_) | Event::Credit(_) => {}
        }
    }
}
