//! Previews: which server of a sandbox an address leads to, and how it is reached.

mod own;

use std::sync::{Arc, Weak};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::StatusCode;
use koze_core::error::Result;
use koze_core::id::SandboxName;
use koze_egress::http::Refusal;
use koze_egress::preview::{Address, FindServer, Port, Server, Stream, unavailable_preview, unknown_preview};

pub(in super::super) use self::own::OwnPreviews;
use crate::Shared;
use crate::engine::{self, engine};
use crate::sandbox::inner::{Inner, Use};

/// Finds the servers of previews in the sandboxes of a state directory.
#[derive(Debug)]
struct Servers(Weak<Shared>);

impl FindServer for Servers {
    fn find<'a>(&'a self, address: Address<'a>) -> BoxFuture<'a, std::result::Result<Port, Refusal>> {
        async move { find_server(&self.0, &address).await.map(Port::new) }.boxed()
    }
}

/// A server in a sandbox.
pub(crate) struct SandboxServer {
    sandbox: Arc<Inner>,
    _using: Use,
    port: u16,
}

impl SandboxServer {
    /// Returns the server on a port of a sandbox.
    pub(crate) fn new(sandbox: Arc<Inner>, port: u16) -> Self {
        SandboxServer { _using: sandbox.using(), sandbox, port }
    }
}

impl Server for SandboxServer {
    fn sandbox(&self) -> &str {
        self.sandbox.name.as_str()
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn connect(&self) -> BoxFuture<'_, std::result::Result<Box<dyn Stream>, Refusal>> {
        async move {
            let waking = Arc::clone(&self.sandbox);
            // Completes even if the browser disconnects.
            let running = engine::run_to_completion(async move { waking.wake().await })
                .await
                .map_err(unavailable_preview)?;
            match super::connect_to_sandbox(&running, self.port).await {
                Ok(stream) => Ok(Box::new(stream) as Box<dyn Stream>),
                Err(error) => Err(Refusal::new(StatusCode::BAD_GATEWAY, error.message)),
            }
        }
        .boxed()
    }
}

/// Returns the URL of a port of a sandbox, and starts the server of previews.
pub(crate) fn expose_port(shared: &Arc<Shared>, port: u16, name: &str, token: &str) -> Result<String> {
    Ok(Address { port, name, token }.url(serve_previews(shared)?))
}

/// Starts the server of previews, and returns its port.
pub(crate) fn serve_previews(shared: &Arc<Shared>) -> Result<u16> {
    shared.previews.serve(&shared.state, engine()?, Arc::new(Servers(Arc::downgrade(shared))))
}

/// Finds the sandbox of an address. Without the token, the response does not even reveal whether the name exists.
async fn find_server(
    shared: &Weak<Shared>,
    address: &Address<'_>,
) -> std::result::Result<SandboxServer, Refusal> {
    let shared = shared.upgrade().ok_or_else(unknown_preview)?;
    let registry = Arc::clone(&shared.registry);
    let name = SandboxName::new(address.name).map_err(|_| unknown_preview())?;
    let wanted = (name.clone(), address.token.to_owned());
    let found = engine::run_blocking(move || registry.exposed_as(wanted.0.as_str(), &wanted.1))
        .await
        .map_err(unavailable_preview)?;
    let (key, settings) = found.ok_or_else(unknown_preview)?;
    Ok(SandboxServer::new(shared.sandbox(&key, &name, settings), address.port))
}
