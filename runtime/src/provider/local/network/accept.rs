//! Connections, as many as this program can afford.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Resource;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The most connections of one listener; more wait.
const MOST: usize = 256;
/// How long nothing is accepted where there is no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves every connection. Dropped, it ends them all.
pub(super) async fn each<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let all = budget();
    let most = MOST.min(all.1 / 2);
    let mut open = JoinSet::new();
    loop {
        while open.len() >= most {
            open.join_next().await;
        }
        tokio::select! {
            accepted = listener.accept() => match (accepted, all.0.try_acquire()) {
                (Ok((stream, _)), Ok(permit)) => {
                    let _ = stream.set_nodelay(true);
                    let serving = serve(stream);
                    open.spawn(async move {
                        serving.await;
                        drop(permit);
                    });
                }
                _ => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = open.join_next() => {}
        }
    }
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
