//! Copies bytes between two connections in both directions.

use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};

/// How long one direction may continue after the other has ended: a closed browser only signals the end of its own
/// direction.
const HALF: Duration = Duration::from_mins(10);

/// Copies until both directions have ended. The end of one direction is forwarded, and the other continues for a while.
pub(crate) async fn join_streams<A, B>(one: A, other: B)
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let ((from_one, to_one), (from_other, to_other)) = (split(one), split(other));
    let (mut there, mut back) =
        (pin!(copy_stream(from_one, to_other)), pin!(copy_stream(from_other, to_one)));
    tokio::select! {
        () = &mut there => drop(tokio::time::timeout(HALF, back).await),
        () = &mut back => drop(tokio::time::timeout(HALF, there).await),
    }
}

async fn copy_stream<A: AsyncRead, B: AsyncWrite>(mut from: ReadHalf<A>, mut to: WriteHalf<B>) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
    let _ = to.shutdown().await;
}
