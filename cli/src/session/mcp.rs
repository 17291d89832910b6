//! Serves a client of the Model Context Protocol in the host, over the streams that `koze mcp` passed on. Calls
//! take no detour through another process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use koze_core::Progress;
use koze_core::tool::{Input, Reply};
use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, mpsc};

use super::host::{Host, reporting};
use super::message::Answer;
use super::wire;
use crate::mcp::gate::Keeper;
use crate::mcp::offering::Offering;
use crate::mcp::server::{Backend, Offer, Server};
use crate::mcp::stdio::{self, Begin, Streams};
use crate::provider::MachineProvider;

/// How often to check whether the last call has ended, and how many checks must find no activity.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const LOOKS: u32 = 2;
/// How often to read a project again that keeps changing.
const READINGS: usize = 3;

/// Serves the client. Returns `None` if `koze mcp` exited or the supervisor is about to.
pub(super) async fn serve(
    host: Arc<Host<impl MachineProvider>>,
    offering: Offering,
    mut read: BufReader<OwnedReadHalf>,
    write: &Arc<Mutex<OwnedWriteHalf>>,
) -> Option<Answer> {
    let [input, output] = wire::take_over(stream_of(&read)).await.ok()?;
    let (new, offerings) = mpsc::channel(1);
    let offer = match Offer::new(offering) {
        Ok(offer) => Arc::new(offer),
        Err(error) => return Some(Answer::Failed(error)),
    };
    let shown = Arc::clone(&offer);
    let now = Mutex::new(Now { offer, offerings, write: Arc::clone(write) });
    let backend = InProcess { host: Arc::clone(&host), now: Arc::new(now), calls: Arc::default() };
    let (calls, keeper) = (Arc::clone(&backend.calls), Keeper::default());
    let served = async {
        let opened = Streams { input, output }.open();
        let (input, output) = opened.map_err(|error| format!("cannot read from the client: {error}"))?;
        stdio::on(Server::new(backend, &shown), keeper.input(input), keeper.output(output), Begin::Anew).await
    };
    let told = async {
        while let Ok(Some(offering)) = wire::receive::<Offering>(&mut read).await {
            if new.send(offering).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        done = served => Some(match keeper.left() {
            Some(unread) => Answer::HandedBack { unread },
            None => Answer::Served(done),
        }),
        () = told => None,
        () = hand_back(&host, &calls, &keeper) => None,
    }
}

/// Stops serving a client before this process exits. Running calls finish and are answered; `koze mcp` serves the
/// requests that follow.
async fn hand_back(host: &Host<impl MachineProvider>, calls: &AtomicUsize, keeper: &Keeper) {
    host.retiring().await;
    keeper.shut();
    // The last input may start a call, and its response a write, a moment later.
    let mut quiet = 0;
    while quiet < LOOKS {
        tokio::time::sleep(POLL_INTERVAL).await;
        let busy = !keeper.is_still() || calls.load(Ordering::Acquire) > 0 || keeper.is_writing();
        quiet = if busy { 0 } else { quiet + 1 };
    }
    keeper.end();
    // The server then ends on its own.
    std::future::pending::<()>().await;
}

fn stream_of(read: &BufReader<OwnedReadHalf>) -> &UnixStream {
    read.get_ref().as_ref()
}

/// The backend for the sandboxes of this process.
#[derive(Clone)]
struct InProcess<P> {
    host: Arc<Host<P>>,
    now: Arc<Mutex<Now>>,
    /// The number of running calls.
    calls: Arc<AtomicUsize>,
}

/// Counts a call until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(calls: &Arc<AtomicUsize>) -> Self {
        calls.fetch_add(1, Ordering::AcqRel);
        Counted(Arc::clone(calls))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The current offer, and the connection to `koze mcp`, which reads the project's files.
struct Now {
    offer: Arc<Offer>,
    offerings: mpsc::Receiver<Offering>,
    write: Arc<Mutex<OwnedWriteHalf>>,
}

impl<P: MachineProvider> Backend for InProcess<P> {
    async fn offer(&self) -> Arc<Offer> {
        let mut now = self.now.lock().await;
        for _ in 0..READINGS {
            if now.offer.offering.holds() {
                break;
            }
            // Discard answers to calls that were canceled meanwhile.
            while now.offerings.try_recv().is_ok() {}
            let asked = wire::send(&mut *now.write.lock().await, &Answer::Changed).await;
            // If `koze mcp` is gone, this ends, too.
            if asked.is_ok()
                && let Some(offering) = now.offerings.recv().await
            {
                // `koze mcp` sends only what it could read.
                if let Ok(offer) = Offer::new(offering) {
                    now.offer = Arc::new(offer);
                }
            }
        }
        Arc::clone(&now.offer)
    }

    async fn call(&self, tool: &str, input: Input, progress: Option<Progress>) -> koze_core::Result<Reply> {
        let _counted = Counted::new(&self.calls);
        let offer = self.offer().await;
        let session = self.host.session(offer.offering.profiles.clone()).await?;
        offer.catalog.call(&reporting(&session, progress), tool, input).await
    }
}
