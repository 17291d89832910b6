//! Accepts connections within this program's descriptor budget.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Resource;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, SemaphorePermit};

use koze_state::{Connections, Proof};

/// The maximum number of connections of a listener of this machine; further ones wait.
pub const MAX_CONNECTIONS: usize = 512;
/// How long to wait before accepting again when descriptors run out, and how long to wait for a permit.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections.
pub trait Listen: Send + Sync + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for a connection. A call that is dropped loses none.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = TcpListener::accept(self).await?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// Serves at most `max_connections` connections at a time. When others need the room, closes those that have not proved anything.
/// Dropping the future closes all.
pub async fn serve_each<L: Listen, F>(
    listener: L,
    max_connections: usize,
    serve: impl Fn(L::Stream, Proof) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let all = connection_budget();
    let mut open = Connections::new(max_connections.min(all.1 / 2));
    loop {
        open.room().await;
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = open.ended() => continue,
        };
        let Ok(stream) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Some(permit) = take_permit(&all.0, &mut open).await else { continue };
        open.serve(|proof| {
            let serving = serve(stream, proof);
            async move {
                serving.await;
                drop(permit);
            }
        });
        // Give it a chance to read what was already sent before the next connection may replace it.
        tokio::task::yield_now().await;
    }
}

/// Takes a permit from the budget. If none is left, an unproven connection of this listener is closed.
async fn take_permit(all: &'static Semaphore, open: &mut Connections) -> Option<SemaphorePermit<'static>> {
    if let Ok(permit) = all.try_acquire() {
        return Some(permit);
    }
    open.evict();
    tokio::time::timeout(PAUSE, all.acquire()).await.ok()?.ok()
}

/// The budget for connections of all listeners, and its size. Each connection takes two descriptors. Programs in
/// sandboxes must leave half of the descriptors to the rest of this program.
fn connection_budget() -> &'static (Semaphore, usize) {
    static BUDGET: OnceLock<(Semaphore, usize)> = OnceLock::new();
    BUDGET.get_or_init(|| {
        let descriptors = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(1 << 16);
        let most = usize::try_from(descriptors / 4).map_or(1 << 14, |most| most.clamp(4, 1 << 14));
        (Semaphore::new(most), most)
    })
}
