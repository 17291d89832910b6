//! Connections, as many as this program can afford.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Resource;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::connections::{Connections, Proof};

/// The most connections of one listener; more wait.
const MOST: usize = 256;
/// How long nothing is accepted where there is no descriptor left, and how long one is waited for.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves every connection, and ends those that prove nothing where others need the room. Dropped, it ends them all.
pub(super) async fn each<F>(listener: TcpListener, serve: impl Fn(TcpStream, Proof) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let all = budget();
    let mut open = Connections::new(MOST.min(all.1 / 2));
    loop {
        open.room().await;
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = open.ended() => continue,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Some(permit) = permit(&all.0, &mut open).await else { continue };
        let _ = stream.set_nodelay(true);
        open.serve(|proof| {
            let serving = serve(stream, proof);
            async move {
                serving.await;
                drop(permit);
            }
        });
        // What it has sent already is looked at before the next one may take its place.
        tokio::task::yield_now().await;
    }
}

/// A share of the budget. Where nothing is left, a connection of this listener that has proved nothing makes way.
async fn permit(all: &'static Semaphore, open: &mut Connections) -> Option<SemaphorePermit<'static>> {
    if let Ok(permit) = all.try_acquire() {
        return Some(permit);
    }
    open.evict();
    tokio::time::timeout(PAUSE, all.acquire()).await.ok()?.ok()
}

/// The connections of all listeners together, and how many that can be. Each takes two descriptors, and whatever is in a
/// sandbox must leave half of them to the rest of this program.
fn budget() -> &'static (Semaphore, usize) {
    static BUDGET: OnceLock<(Semaphore, usize)> = OnceLock::new();
    BUDGET.get_or_init(|| {
        let descriptors = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(1 << 16);
        let most = usize::try_from(descriptors / 4).map_or(1 << 14, |most| most.clamp(4, 1 << 14));
        (Semaphore::new(most), most)
    })
}
