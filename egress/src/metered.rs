//! Counts what is exchanged with a host, and ends connections at the limit of a policy.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use hyper::StatusCode;
use koze_core::egress::{Host, Policy, Refused, Usage};
use koze_state::{EgressJournal, Reached};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::Refusal;
use crate::refusals::Refusals;

/// What a sandbox has used of its limits since it was started.
#[derive(Debug)]
pub(crate) struct Meter {
    policy: Arc<Policy>,
    usage: Mutex<Usage>,
    began: Instant,
}

impl Meter {
    pub(crate) fn new(policy: Arc<Policy>) -> Self {
        Meter { policy, usage: Mutex::default(), began: Instant::now() }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// Returns the limit that it would exceed.
    pub(crate) fn count_request(&self, host: &Host) -> Result<(), Refused> {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        self.policy.count_request(&mut usage, host, self.began.elapsed())
    }

    /// Counts bytes in either direction. With 0 bytes, it checks whether any are left.
    ///
    /// # Errors
    /// Returns the limit that they exceed.
    pub(crate) fn count_bytes(&self, host: &Host, bytes: usize) -> Result<(), Refused> {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        self.policy.count_bytes(&mut usage, host, bytes as u64, self.began.elapsed())
    }
}

/// A connection that fails at the limit of bytes, if the policy has one.
pub struct Metered<S> {
    stream: S,
    limited: Option<Box<Limited>>,
}

/// What is needed to count the bytes of a connection.
pub(crate) struct Limited {
    pub(crate) meter: Arc<Meter>,
    pub(crate) host: Host,
    /// Where the end of the connection is recorded.
    pub(crate) journal: EgressJournal,
    pub(crate) refusals: Option<Arc<Refusals>>,
    /// The entry of the connection in the journal.
    pub(crate) entry: Reached,
}

impl<S> Metered<S> {
    pub(crate) fn new(stream: S, limited: Option<Limited>) -> Self {
        Metered { stream, limited: limited.map(Box::new) }
    }

    fn count(&mut self, bytes: usize) -> io::Result<()> {
        let Some(limited) = &self.limited else { return Ok(()) };
        limited.meter.count_bytes(&limited.host, bytes).map_err(|refused| {
            let text = refused.text.clone();
            limited.record(refused);
            io::Error::other(text)
        })
    }
}

impl Limited {
    /// Records that the connection ends here.
    fn record(&self, refused: Refused) {
        let Refused { rule, text } = refused;
        if let Some(refusals) = &self.refusals {
            let answer = Refusal::new(StatusCode::TOO_MANY_REQUESTS, text);
            refusals.add(self.host.in_url(), self.entry.port, &answer);
        }
        // An entry of its own: the connection was allowed.
        let mut entry = self.journal.entry(&self.host.to_string(), self.entry.port);
        entry.address = self.entry.address;
        let journal = self.journal.clone();
        tokio::spawn(async move { journal.refuse(&mut entry, &rule).await });
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        Poll::Ready(if read == 0 { Ok(()) } else { self.count(read) })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        Poll::Ready(self.count(written).map(|()| written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, parts))?;
        Poll::Ready(self.count(written).map(|()| written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
