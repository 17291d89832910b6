//! The output that a tool call reports while it runs.
//!
//! A host that can forward output adds a [`Progress`] to the session of a call, and runs the call with [`follow`]:
//!
//! ```
//! # use koze_core::progress::{Event, Progress, follow};
//! # use koze_core::{Provider, Session, tool::{All, Catalog}};
//! # use futures_util::StreamExt as _;
//! # async fn call<P: Provider>(session: Session<P>, catalog: Catalog<All>, input: serde_json::Value) {
//! let (progress, reports) = Progress::channel();
//! let session = session.with_progress(progress);
//! let call = async move { catalog.call(&session, "workspace__box__run", input).await };
//! let mut events = std::pin::pin!(follow(call, reports));
//! while let Some(event) = events.next().await {
//!     match event {
//!         Event::Output(chunk) => print!("{}", String::from_utf8_lossy(&chunk.bytes)),
//!         Event::Done(reply) => println!("{reply:?}"),
//!     }
//! }
//! # }
//! ```

#[doc(hidden)]
pub mod events;
#[doc(hidden)]
pub mod notices;

use std::convert::Infallible;
use std::future::Future;
use std::task::Poll;

use futures_util::Stream as Events;
use futures_util::future::BoxFuture;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc;

use crate::sandbox::process::{Chunk, Stream};

/// Forwards the output of a call's programs. A program waits until its output is received.
#[derive(Debug, Clone)]
pub struct Progress(mpsc::Sender<Chunk>);

/// The other end of a [`Progress`].
#[derive(Debug)]
pub struct Reports(mpsc::Receiver<Chunk>);

/// What happens during a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<T> {
    /// A program has printed something.
    Output(Chunk),
    /// The call has ended. Nothing follows.
    Done(T),
}

impl Progress {
    /// Creates a channel from a call to its host.
    pub fn channel() -> (Self, Reports) {
        let (send, receive) = mpsc::channel(1);
        (Progress(send), Reports(receive))
    }

    /// Reports output. Returns when the host has room for it, or no longer listens.
    pub async fn report(&self, chunk: Chunk) {
        // A host that no longer listens still gets the result.
        let _ = self.0.send(chunk).await;
    }

    /// Returns a function that reports output, and never fails.
    pub(crate) fn to_reporter(
        &self,
    ) -> impl FnMut(Chunk) -> BoxFuture<'static, Result<(), Infallible>> + Send + 'static {
        let progress = self.clone();
        move |chunk| {
            let progress = progress.clone();
            Box::pin(async move {
                progress.report(chunk).await;
                Ok(())
            })
        }
    }
}

/// Runs a call, which owns its [`Progress`]. Returns what it reports, and then its result. Dropping the stream drops the call.
pub fn follow<T>(call: impl Future<Output = T>, reports: Reports) -> impl Events<Item = Event<T>> {
    let (mut reports, mut done) = (reports.0, None);
    // The call is dropped as soon as it has ended, and its end of the channel with it.
    let mut call = Some(Box::pin(call));
    poll_fn(move |context| {
        if let Some(running) = &mut call
            && let Poll::Ready(result) = running.as_mut().poll(context)
        {
            (call, done) = (None, Some(result));
        }
        // Once in each poll: when tokio ends the turn of the task, this is pending whatever was reported.
        match reports.poll_recv(context) {
            Poll::Ready(Some(chunk)) => Poll::Ready(Some(Event::Output(chunk))),
            Poll::Ready(None) if call.is_none() => Poll::Ready(done.take().map(Event::Done)),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    })
}

/// Decodes the output of the two streams of a program for receivers of text. A character whose bytes arrive in two parts is
/// kept together.
#[derive(Debug, Default)]
pub struct Texts([Vec<u8>; 2]);

impl Texts {
    /// Returns the text of a part, or nothing if it only begins a character. Invalid bytes become U+FFFD: the result of the
    /// call has the bytes as they are.
    pub fn decode(&mut self, chunk: &Chunk) -> Option<String> {
        let rest = &mut self.0[usize::from(chunk.stream == Stream::Stderr)];
        rest.extend_from_slice(&chunk.bytes);
        let whole = match std::str::from_utf8(rest) {
            Ok(_) => rest.len(),
            Err(_) => rest.len() - incomplete_len(rest),
        };
        let text = String::from_utf8_lossy(&rest[..whole]).into_owned();
        rest.drain(..whole);
        (!text.is_empty()).then_some(text)
    }

    /// Returns the text of characters that were begun and will not be completed.
    pub fn finish(&mut self) -> impl Iterator<Item = (Stream, String)> {
        let rest = std::mem::take(&mut self.0);
        let text = |(stream, rest): (Stream, Vec<u8>)| (stream, String::from_utf8_lossy(&rest).into_owned());
        [Stream::Stdout, Stream::Stderr].into_iter().zip(rest).map(text).filter(|(_, text)| !text.is_empty())
    }
}

/// Returns how many bytes at the end begin a character that is not complete.
fn incomplete_len(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3);
    let starts = (last..bytes.len()).find(|at| {
        std::str::from_utf8(&bytes[*at..])
            .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    });
    starts.map_or(0, |at| bytes.len() - at)
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    fn chunk(stream: Stream, bytes: &[u8]) -> Chunk {
        Chunk { stream, bytes: bytes.to_vec() }
    }

    #[test]
    fn reports_come_before_the_result_and_wait_for_the_host() {
        let (progress, reports) = Progress::channel();
        let sent = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = std::rc::Rc::clone(&sent);
        let call = async move {
            for number in 0..10_u8 {
                progress.report(chunk(Stream::Stdout, &[number])).await;
                count.set(number);
            }
            "done"
        };
        pollster::block_on(async {
            let mut events = std::pin::pin!(follow(call, reports));
            for number in 0..10_u8 {
                assert_eq!(events.next().await, Some(Event::Output(chunk(Stream::Stdout, &[number]))));
                assert!(sent.get() <= number + 2, "it is {} ahead", sent.get() - number);
            }
            assert_eq!(events.next().await, Some(Event::Done("done")));
            assert_eq!(events.next().await, None);
        });
    }

    /// tokio ends the turn of a task that never waits: its channels are pending then.
    #[test]
    fn a_host_that_never_waits_gets_everything() {
        const REPORTS: usize = 10_000;
        let (send, finished) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (progress, reports) = Progress::channel();
            let call = async move {
                for _ in 0..REPORTS {
                    progress.report(chunk(Stream::Stdout, b"a")).await;
                }
            };
            let events = runtime.block_on(async {
                let mut events = std::pin::pin!(follow(call, reports));
                let mut count = 0;
                while events.next().await.is_some() {
                    count += 1;
                    // The host's own work counts, too, so that the turn ends at any point.
                    tokio::task::consume_budget().await;
                }
                count
            });
            send.send(events).unwrap();
        });
        let events = finished.recv_timeout(std::time::Duration::from_mins(1));
        assert_eq!(events, Ok(REPORTS + 1));
    }

    #[test]
    fn characters_are_kept_together() {
        let mut texts = Texts::default();
        let mut out = |bytes: &[u8]| texts.decode(&chunk(Stream::Stdout, bytes));
        assert_eq!(out("aä".as_bytes()).as_deref(), Some("aä"));
        let smile = "😀".as_bytes();
        assert_eq!(out(&smile[..1]), None);
        assert_eq!(out(&smile[1..3]), None);
        assert_eq!(out(&[&smile[3..], b"b"].concat()).as_deref(), Some("😀b"));
        assert_eq!(out(b"\xff\xfe").as_deref(), Some("\u{fffd}\u{fffd}"));
        assert_eq!(out(b"a\xe2").as_deref(), Some("a"));
        assert_eq!(out(b"b").as_deref(), Some("\u{fffd}b"));
        assert_eq!(texts.decode(&chunk(Stream::Stderr, &smile[..2])), None);
        assert_eq!(texts.decode(&chunk(Stream::Stdout, b"c")).as_deref(), Some("c"));
    }
}
