//! Previews: the servers of programs in containers, which are reached over the connection to the guest.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::StatusCode;
use koze_core::error::{Code, Error, Result};
use koze_core::id::SandboxName;
use koze_egress::create_token;
use koze_egress::http::Refusal;
use koze_egress::preview::{Address, FindServer, Port, Server, Stream, unavailable_preview, unknown_preview};
use subtle::ConstantTimeEq as _;

use crate::guest::Tunnel;
use crate::runtime;
use crate::sandbox::EngineSandbox;
use crate::sandbox::inner::{Inner, Running, Use};
use crate::shared::Shared;

/// How long a server in a sandbox may take to accept a connection.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of open connections of a sandbox for previews; further ones wait. Each takes two threads of the guest.
pub(crate) const MAX_CONNECTIONS: usize = 32;

/// Returns the URL of a port of a sandbox, and starts the server of previews.
///
/// # Errors
/// [`Code::InvalidInput`] for port 0, and [`Code::Unavailable`] if previews cannot be served.
pub(crate) fn expose_port(inner: &Inner, port: u16) -> Result<String> {
    if port == 0 {
        return Err(Error::new(Code::InvalidInput, "a port must be from 1 to 65535"));
    }
    if !inner.record().is_exposed() {
        let new = create_token()?;
        inner.change_record(|record| {
            record.preview_token.get_or_insert(new);
        })?;
    }
    let token = inner.record().preview_token.clone().unwrap_or_default();
    Ok(Address { port, name: inner.id.name.as_str(), token: &token }.url(serve_previews(&inner.shared)?))
}

/// Starts the server of previews, and returns its port.
pub(crate) fn serve_previews(shared: &Arc<Shared>) -> Result<u16> {
    let servers = Servers(Arc::downgrade(shared));
    shared.previews.serve(shared.networks.dir(), runtime::handle()?, Arc::new(servers))
}

/// Finds the servers of previews in the sandboxes of a session's directory.
struct Servers(Weak<Shared>);

impl FindServer for Servers {
    fn find<'a>(&'a self, address: Address<'a>) -> BoxFuture<'a, std::result::Result<Port, Refusal>> {
        async move { find_server(&self.0, &address).map(Port::new) }.boxed()
    }
}

/// Finds the sandbox of an address. Without the token, the response does not even reveal whether the name exists.
fn find_server(
    shared: &Weak<Shared>,
    address: &Address<'_>,
) -> std::result::Result<ContainerServer, Refusal> {
    let shared = shared.upgrade().ok_or_else(unknown_preview)?;
    let name = SandboxName::new(address.name).map_err(|_| unknown_preview())?;
    let records = shared.records.list().map_err(unavailable_preview)?;
    // Compare in constant time.
    let is_right = |token: &str| bool::from(token.as_bytes().ct_eq(address.token.as_bytes()));
    let found = records.into_iter().find(|(id, record)| {
        id.name == name && record.is_complete && record.preview_token.as_deref().is_some_and(is_right)
    });
    let (id, record) = found.ok_or_else(unknown_preview)?;
    let inner = shared.enter(&id, record);
    Ok(ContainerServer {
        _using: inner.using(),
        name: id.name.to_string(),
        sandbox: EngineSandbox(inner),
        port: address.port,
    })
}

/// A server in a container, which stays awake.
struct ContainerServer {
    sandbox: EngineSandbox,
    _using: Use,
    name: String,
    port: u16,
}

impl ContainerServer {
    async fn open(&self, running: Arc<Running>) -> Result<Tunnel> {
        let port = self.port;
        let connecting = async {
            let permits = Arc::clone(&running.previews);
            let gone = |error| Error::new(Code::Unavailable, "the sandbox ended").with_source(error);
            let permit = permits.acquire_owned().await.map_err(gone)?;
            let mut tunnel = Tunnel::connect(&running.connection, port).await?;
            tunnel.hold_permit(permit);
            Ok(tunnel)
        };
        tokio::time::timeout(TIMEOUT, connecting).await.unwrap_or_else(|_| {
            let text = format!("the server on port {port} of the sandbox does not accept connections");
            Err(Error::new(Code::Timeout, text))
        })
    }
}

impl Server for ContainerServer {
    fn sandbox(&self) -> &str {
        &self.name
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn connect(&self) -> BoxFuture<'_, std::result::Result<Box<dyn Stream>, Refusal>> {
        async move {
            let running = self.sandbox.wake().await.map_err(unavailable_preview)?;
            match self.open(running).await {
                Ok(tunnel) => Ok(Box::new(tunnel) as Box<dyn Stream>),
                Err(error) => Err(Refusal::new(StatusCode::BAD_GATEWAY, error.message)),
            }
        }
        .boxed()
    }
}
