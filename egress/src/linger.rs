//! A connection that is closed in two steps.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a client may take to read the last response and to close the connection.
const LIMIT: Duration = Duration::from_secs(5);

/// A connection whose shutdown discards what the client is still sending, such as the rest of an upload that was refused. If it were
/// closed with unread data, TCP would reset it, and the client could lose the response.
/// Source: <https://www.rfc-editor.org/rfc/rfc9112#section-9.6>.
pub(crate) struct Linger<S> {
    stream: S,
    limit: Duration,
    /// Whether it became a tunnel, whose client may send more after the server has ended.
    is_tunnel: Arc<AtomicBool>,
    /// Set once the last byte has been sent.
    end: Option<Pin<Box<Sleep>>>,
}

impl<S> Linger<S> {
    /// Creates it with a flag that is set when the connection becomes a tunnel.
    pub(crate) fn new(stream: S, is_tunnel: Arc<AtomicBool>) -> Self {
        Linger { stream, limit: LIMIT, is_tunnel, end: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Linger<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Linger<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.is_tunnel.load(Ordering::Relaxed) {
            return Pin::new(&mut this.stream).poll_shutdown(cx);
        }
        let end = if let Some(end) = &mut this.end {
            end
        } else {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            this.end.insert(Box::pin(sleep(this.limit)))
        };
        let mut space = [0; 8 << 10];
        loop {
            if end.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut space);
            let read = ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// More than the buffers of a connection hold.
    const UPLOAD: usize = 32 << 20;

    #[test]
    fn a_response_arrives_during_an_upload() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let server = async {
                let mut stream = Linger::new(stream, Arc::default());
                stream.read_exact(&mut [0; 100]).await.unwrap();
                stream.write_all(b"refused").await.unwrap();
                stream.shutdown().await.unwrap();
            };
            let client = async move {
                client.write_all(&vec![0; UPLOAD]).await.unwrap();
                let mut response = String::new();
                client.read_to_string(&mut response).await.unwrap();
                response
            };
            let ((), response) = tokio::join!(server, client);
            assert_eq!(response, "refused");
        });
    }

    #[test]
    fn a_client_that_stays_is_closed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (here, _there) = tokio::io::duplex(64);
            let limit = Duration::from_millis(10);
            let mut here = Linger { stream: here, limit, is_tunnel: Arc::default(), end: None };
            here.shutdown().await.unwrap();
        });
    }

    #[test]
    fn a_tunnel_passes_on_what_comes_after_its_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (here, mut there) = tokio::io::duplex(64);
            let mut here = Linger::new(here, Arc::new(AtomicBool::new(true)));
            there.write_all(b"more").await.unwrap();
            here.shutdown().await.unwrap();
            let mut more = [0; 4];
            here.read_exact(&mut more).await.unwrap();
            assert_eq!(&more, b"more");
        });
    }
}
