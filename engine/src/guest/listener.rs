//! Accepts the connections of programs to a port in a container: a few calls of the guest wait for them, and are renewed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use koze_core::error::Result;
use koze_egress::accept::Listen;
use koze_guest::request::{Port, Request};
use serde::de::IgnoredAny;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::{Connection, Tunnel};
use crate::runtime;

/// How many calls wait for connections. The kernel of the container holds further ones.
const WAITING: usize = 4;
/// How long to wait after an error of the guest, such as a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// Listens on a port in a container. Dropping it ends the calls that wait; the guest keeps the port.
#[derive(Debug)]
pub(crate) struct GuestListener {
    accepted: Mutex<mpsc::Receiver<Tunnel>>,
    _waiting: JoinSet<()>,
}

impl GuestListener {
    /// Listens. From then on, programs can connect.
    ///
    /// # Errors
    /// [`koze_core::Code::Unavailable`] if a program already listens on the port.
    pub(crate) async fn bind(connection: &Arc<Connection>, port: u16) -> Result<Self> {
        connection.call(&Request::Listen(Port { port }))?.finish::<IgnoredAny>().await?;
        let runtime = runtime::handle()?;
        let (sender, accepted) = mpsc::channel(1);
        let mut waiting = JoinSet::new();
        for _ in 0..WAITING {
            waiting.spawn_on(accept_connections(Arc::clone(connection), port, sender.clone()), runtime);
        }
        Ok(GuestListener { accepted: Mutex::new(accepted), _waiting: waiting })
    }
}

impl Listen for GuestListener {
    type Stream = Tunnel;

    async fn accept(&self) -> io::Result<Tunnel> {
        match self.accepted.lock().await.recv().await {
            Some(tunnel) => Ok(tunnel),
            // The connection to the guest has ended. Whatever waits here is dropped with the sandbox.
            None => std::future::pending().await,
        }
    }
}

/// Accepts one connection after another, until the connection to the guest ends or nobody takes them.
async fn accept_connections(connection: Arc<Connection>, port: u16, accepted: mpsc::Sender<Tunnel>) {
    while !connection.is_closed() {
        match Tunnel::accept(&connection, port).await {
            Ok(tunnel) => {
                if accepted.send(tunnel).await.is_err() {
                    return;
                }
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
