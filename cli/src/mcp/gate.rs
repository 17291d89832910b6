//! Pauses the streams of a client so that another process can take it over without losing input or truncating a
//! response.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The size of a read, in bytes.
const CHUNK: usize = 8192;

/// The phase of a takeover.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// Finishes the current line; later input is buffered.
    Shut,
    /// The last line was read, and the reader waits for more.
    Still,
    /// The reader sees end of file.
    Ended,
}

#[derive(Debug, Default)]
struct Gate {
    phase: Phase,
    /// Input from the client that was not passed on.
    unread: Vec<u8>,
    /// The task that waits for input.
    reader: Option<Waker>,
    /// Whether a write is in progress.
    writing: bool,
}

/// Controls the gated streams.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keeper(Arc<Mutex<Gate>>);

impl Keeper {
    /// Wraps the client's input.
    pub(crate) fn input<R>(&self, inner: R) -> Input<R> {
        Input { inner, mid_line: false, keeper: self.clone() }
    }

    /// Wraps the client's output to observe its writes.
    pub(crate) fn output<W>(&self, inner: W) -> Output<W> {
        Output { inner, keeper: self.clone() }
    }

    /// Stops passing on input after the current line.
    pub(crate) fn shut(&self) {
        self.advance_to(Phase::Shut);
    }

    /// Returns whether the gate is shut and the reader has consumed everything that was passed on.
    pub(crate) fn is_still(&self) -> bool {
        self.lock_state().phase == Phase::Still
    }

    /// Returns whether a write is in progress.
    pub(crate) fn is_writing(&self) -> bool {
        self.lock_state().writing
    }

    /// Ends the input. It must be still.
    pub(crate) fn end(&self) {
        self.advance_to(Phase::Ended);
    }

    /// Returns the input that was not passed on, or `None` if the client itself ended the stream.
    pub(crate) fn left(&self) -> Option<Vec<u8>> {
        let mut state = self.lock_state();
        (state.phase == Phase::Ended).then(|| std::mem::take(&mut state.unread))
    }

    fn advance_to(&self, phase: Phase) {
        let mut state = self.lock_state();
        state.phase = phase;
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, Gate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The gated input of a client.
#[derive(Debug)]
pub(crate) struct Input<R> {
    inner: R,
    /// Whether the input passed on so far ends in the middle of a line.
    mid_line: bool,
    keeper: Keeper,
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let keeper = self.keeper.clone();
        loop {
            let mut state = keeper.lock_state();
            state.reader = Some(context.waker().clone());
            if state.phase != Phase::Open && !self.mid_line {
                if state.phase == Phase::Ended {
                    return Poll::Ready(Ok(()));
                }
                state.phase = Phase::Still;
                return Poll::Pending;
            }
            if !state.unread.is_empty() {
                let mut taken = state.unread.len().min(buffer.remaining());
                if state.phase != Phase::Open {
                    let end = state.unread[..taken].iter().position(|byte| *byte == b'\n');
                    taken = end.map_or(taken, |end| end + 1);
                }
                buffer.put_slice(&state.unread[..taken]);
                self.mid_line = state.unread[..taken].last() != Some(&b'\n');
                state.unread.drain(..taken);
                return Poll::Ready(Ok(()));
            }
            let mut chunk = [0; CHUNK];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut self.inner).poll_read(context, &mut chunk))?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            state.unread.extend_from_slice(chunk.filled());
        }
    }
}

/// The observed output of a client.
#[derive(Debug)]
pub(crate) struct Output<W> {
    inner: W,
    keeper: Keeper,
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Output<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.keeper.lock_state().writing = true;
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.inner).poll_flush(context));
        self.keeper.lock_state().writing = false;
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, duplex};
    use tokio::time::timeout;

    use super::*;

    fn block_on(work: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
    }

    #[test]
    fn no_byte_is_lost_and_no_line_is_truncated() {
        block_on(async {
            let (mut client, here) = duplex(1 << 16);
            let keeper = Keeper::default();
            let mut server = BufReader::with_capacity(4, keeper.input(here)).lines();
            client.write_all(b"one\ntwo\nthr").await.unwrap();
            assert_eq!(server.next_line().await.unwrap().as_deref(), Some("one"));
            assert_eq!(server.next_line().await.unwrap().as_deref(), Some("two"));
            // Half of the third line was passed on, so the rest follows; the fourth line is buffered.
            let third = tokio::spawn(async move { (server.next_line().await.unwrap(), server) });
            tokio::time::sleep(Duration::from_millis(20)).await;
            keeper.shut();
            assert!(!keeper.is_still());
            client.write_all(b"ee\nfour\nfi").await.unwrap();
            let (line, mut server) = third.await.unwrap();
            assert_eq!(line.as_deref(), Some("three"));
            assert!(timeout(Duration::from_millis(20), server.next_line()).await.is_err());
            assert!(keeper.is_still() && keeper.left().is_none());
            keeper.end();
            assert_eq!(server.next_line().await.unwrap(), None);
            let mut rest = keeper.left().unwrap();
            client.write_all(b"ve\n").await.unwrap();
            drop(client);
            server.into_inner().into_inner().inner.read_to_end(&mut rest).await.unwrap();
            assert_eq!(rest, b"four\nfive\n");
        });
    }

    #[test]
    fn a_waiting_reader_notices_the_shutdown() {
        block_on(async {
            let (_client, here) = duplex(16);
            let keeper = Keeper::default();
            let mut server = BufReader::new(keeper.input(here)).lines();
            let line = tokio::spawn(async move { server.next_line().await.unwrap() });
            tokio::time::sleep(Duration::from_millis(20)).await;
            keeper.shut();
            while !keeper.is_still() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            keeper.end();
            assert_eq!(line.await.unwrap(), None);
        });
    }

    #[test]
    fn pending_writes_are_observed() {
        block_on(async {
            let (mut client, here) = duplex(4);
            let keeper = Keeper::default();
            let mut server = keeper.output(here);
            let written = tokio::spawn(async move {
                server.write_all(b"a long answer\n").await.unwrap();
                server.flush().await.unwrap();
            });
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(keeper.is_writing());
            client.read_exact(&mut [0; 14]).await.unwrap();
            written.await.unwrap();
            assert!(!keeper.is_writing());
        });
    }
}
