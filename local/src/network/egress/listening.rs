//! Holds back what the client of a tunnel sends until its requested host is known and allowed. Data of the server is
//! forwarded all the time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use super::hello::{self, Hello};
use super::host::Host;
use super::journal::Reached;
use super::policy::Refused;
use super::reach::Reach;

/// The size of one read, in bytes.
const CHUNK: usize = 16 << 10;

/// The client of a tunnel.
pub(super) struct Listening<S> {
    stream: S,
    /// The bytes that were received and not forwarded.
    held: Vec<u8>,
    at: usize,
    phase: Phase,
}

enum Phase {
    /// The message is incomplete.
    Listening(oneshot::Sender<Heard>),
    /// The message waits for a decision.
    Judged(oneshot::Receiver<()>),
    /// Data is forwarded.
    Open,
}

/// The requested host, and a channel for the decision.
pub(super) struct Heard {
    hello: Hello,
    go_on: oneshot::Sender<()>,
}

impl<S> Listening<S> {
    /// Wraps a client. Returns it with a channel that receives its requested host.
    pub(super) fn new(stream: S) -> (Self, oneshot::Receiver<Heard>) {
        let (tell, heard) = oneshot::channel();
        (Listening { stream, held: Vec::new(), at: 0, phase: Phase::Listening(tell) }, heard)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Listening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let this = &mut *self;
            match &mut this.phase {
                Phase::Listening(_) => {
                    let mut chunk = [0; CHUNK];
                    let mut chunk = ReadBuf::new(&mut chunk);
                    ready!(Pin::new(&mut this.stream).poll_read(cx, &mut chunk))?;
                    this.held.extend_from_slice(chunk.filled());
                    let hello = hello::read(&this.held);
                    // A client that disconnects early has requested nothing.
                    let ended = chunk.filled().is_empty().then_some(Hello::Other);
                    let Some(hello) = hello.or(ended) else { continue };
                    let (go_on, gone_on) = oneshot::channel();
                    if let Phase::Listening(tell) = std::mem::replace(&mut this.phase, Phase::Judged(gone_on))
                    {
                        let _ = tell.send(Heard { hello, go_on });
                    }
                }
                Phase::Judged(gone_on) => {
                    if ready!(Pin::new(gone_on).poll(cx)).is_err() {
                        return Poll::Ready(Err(io::ErrorKind::PermissionDenied.into()));
                    }
                    this.phase = Phase::Open;
                }
                Phase::Open if this.at < this.held.len() => {
                    let some = (this.held.len() - this.at).min(buffer.remaining());
                    buffer.put_slice(&this.held[this.at..this.at + some]);
                    this.at += some;
                    if this.at == this.held.len() {
                        (this.held, this.at) = (Vec::new(), 0);
                    }
                    return Poll::Ready(Ok(()));
                }
                Phase::Open => return Pin::new(&mut this.stream).poll_read(cx, buffer),
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Listening<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Decides on a tunnel to a host.
pub(super) struct Judge {
    pub(super) reach: Arc<Reach>,
    pub(super) host: Host,
    pub(super) entry: Reached,
}

impl Judge {
    /// Decides once the requested host is known. Completes only if it is denied.
    pub(super) async fn refuses(mut self, heard: oneshot::Receiver<Heard>) {
        let Ok(Heard { hello, go_on }) = heard.await else { return std::future::pending().await };
        if let Hello::Name(name) = &hello {
            self.entry.sni = Some(name.to_string());
        }
        if let Err(refused) = self.judged(&hello) {
            self.reach.journal.refused(&mut self.entry, &refused).await;
            return;
        }
        if self.entry.sni.is_some() {
            self.reach.journal.note(&self.entry).await;
        }
        let _ = go_on.send(());
        std::future::pending::<()>().await;
    }

    fn judged(&self, hello: &Hello) -> Result<(), Refused> {
        let policy = &self.reach.policy;
        match hello {
            Hello::Name(name) => policy.judge_inner(&self.host, name, self.entry.port),
            Hello::Odd if policy.needs_name(&self.host) => {
                let rule = "server name: cannot be read".to_owned();
                Err(Refused { text: rule.clone(), rule })
            }
            Hello::Odd | Hello::Nameless | Hello::Other => Ok(()),
        }
    }
}
