//! Runs futures at the same time: a few, each of which waits for a call to a sandbox.
//!
//! All of them are polled whenever one can continue. The functions of this name in futures-util give each its own waker
//! instead, which is faster for many, but adds the code of a queue to a Worker for every type of future.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use futures_util::future::{MaybeDone, TryMaybeDone, maybe_done, try_maybe_done};

/// Returns the results of futures, in their order.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<Pin<Box<MaybeDone<F>>>> = futures.into_iter().map(maybe_done).map(Box::pin).collect();
    poll_fn(|cx| {
        let mut done = Poll::Ready(());
        for one in &mut all {
            if one.as_mut().poll(cx).is_pending() {
                done = Poll::Pending;
            }
        }
        done
    })
    .await;
    all.iter_mut().filter_map(|one| one.as_mut().take_output()).collect()
}

/// Returns the results of futures, in their order, or the first error. The others are then dropped.
///
/// # Errors
/// That of the first future that fails.
pub async fn try_join_all<T, E, F: Future<Output = Result<T, E>>>(
    futures: impl IntoIterator<Item = F>,
) -> Result<Vec<T>, E> {
    let mut all: Vec<Pin<Box<TryMaybeDone<F>>>> =
        futures.into_iter().map(try_maybe_done).map(Box::pin).collect();
    poll_fn(|cx| {
        let mut done = Poll::Ready(Ok(()));
        for one in &mut all {
            match one.as_mut().poll(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => done = Poll::Pending,
            }
        }
        done
    })
    .await?;
    Ok(all.iter_mut().filter_map(|one| one.as_mut().take_output()).collect())
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt as _;
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn results_have_the_order_of_the_futures() {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel()).unzip();
        let mut all = Box::pin(join_all(receivers));
        let mut senders = senders.into_iter().enumerate().rev();
        for (number, sender) in senders.by_ref().take(2) {
            sender.send(number).unwrap();
            assert!(all.as_mut().now_or_never().is_none(), "the first is still missing");
        }
        for (number, sender) in senders {
            sender.send(number).unwrap();
        }
        assert_eq!(all.now_or_never(), Some(vec![Ok(0), Ok(1), Ok(2)]));
    }

    #[test]
    fn an_error_ends_all() {
        let (sender, receiver) = oneshot::channel::<()>();
        let of = |error: bool| async move { if error { Err("failed") } else { Ok(()) } };
        let waits = async {
            let _ = receiver.await;
            Ok(())
        };
        let all =
            [of(false).boxed_local(), waits.boxed_local(), of(true).boxed_local(), pending().boxed_local()];
        assert_eq!(try_join_all(all).now_or_never(), Some(Err("failed")));
        assert!(sender.is_closed(), "what still runs is dropped");
        assert_eq!(try_join_all([of(false), of(false)]).now_or_never(), Some(Ok(vec![(), ()])));
        assert_eq!(join_all([ready(1)].into_iter().skip(1)).now_or_never(), Some(vec![]));
    }
}
