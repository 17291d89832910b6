//! Bytes both ways between two connections.

use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};

/// How long one way may go on after the other has ended: a browser that is gone says no more than that it is done.
const HALF: Duration = Duration::from_mins(10);

/// Copies until both ways have ended. The end of one is passed on, and the other goes on for a while.
pub(super) async fn tunnel<A, B>(one: A, other: B)
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let ((from_one, to_one), (from_other, to_other)) = (split(one), split(other));
    let (mut there, mut back) = (pin!(copy(from_one, to_other)), pin!(copy(from_other, to_one)));
    tokio::select! {
        () = &mut there => drop(tokio::time::timeout(HALF, back).await),
        () = &mut back => drop(tokio::time::timeout(HALF, there).await),
    }
}

async fn copy<A: AsyncRead, B: AsyncWrite>(mut from: ReadHalf<A>, mut to: WriteHalf<B>) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
    let _ = to.shutdown().await;
}
