//! The HTTP server of `koze serve` and of `koze mcp --http`: the routes of a Worker, with bearer tokens. The first serves the
//! sessions of several tenants, and the second one session.
//!
//! | module | job |
//! |---|---|
//! | `endpoint` | authenticates clients, and routes requests |
//! | `tenants` | the tenants, and how each reaches its sessions |
//! | `origins` | CORS |
//! | `calls`, `files`, `trees`, `sandboxes`, `log`, `machine` | the routes below `/sessions` |
//! | `previews` | previews of sandboxes at a host of the server |
//! | `terminal` | shells in terminals, over WebSockets |
//! | `mcp` | the Model Context Protocol |
//! | `ui` | the page of `koze ui`, with a cookie in place of bearer tokens |
//! | `body`, `answer` | the bodies of requests; responses |

mod answer;
mod body;
mod calls;
mod endpoint;
mod files;
mod log;
mod machine;
mod mcp;
mod origins;
mod previews;
mod sandboxes;
mod tenants;
mod terminal;
mod trees;
pub(crate) mod ui;

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use koze_core::http::Tokens;
use tokio::net::TcpListener;

use self::answer::Answer;
use self::endpoint::Endpoint;
use self::mcp::PATH;
use self::origins::Origins;
pub(crate) use self::previews::Previews;
pub(crate) use self::tenants::Tenant;
use crate::provider::{Connections, Proof};

/// The maximum number of connections. Unauthenticated ones may use half of it; beyond that, the oldest one is closed.
/// Each connection takes a file descriptor, and another one for its call.
const CONNECTIONS: usize = 256;

/// The address to listen on, and the origins to allow.
pub(crate) struct Listen {
    address: SocketAddr,
    origins: Origins,
    accepts_any_host: bool,
}

impl Listen {
    /// Validates the origins. Requests for names other than those of this machine are refused.
    ///
    /// # Errors
    /// Returns a message that names the first invalid origin.
    pub(crate) fn new(address: SocketAddr, origins: &[String]) -> Result<Self, String> {
        Ok(Listen { address, origins: Origins::new(origins)?, accepts_any_host: false })
    }

    /// Accepts requests for any name of a host, as a server behind a proxy gets them.
    #[must_use]
    pub(crate) fn with_any_host(self) -> Self {
        Listen { accepts_any_host: true, ..self }
    }
}

/// A server that listens.
pub(crate) struct HttpServer {
    listener: TcpListener,
    origins: Origins,
    accepts_any_host: bool,
    /// Its URL, without a slash at the end.
    pub(crate) url: String,
}

impl HttpServer {
    /// Listens.
    ///
    /// # Errors
    /// Returns a message about the address.
    pub(crate) async fn bind(Listen { address, origins, accepts_any_host }: Listen) -> Result<Self, String> {
        let unusable = |error| format!("{address} cannot be used: {error}");
        let listener = TcpListener::bind(address).await.map_err(unusable)?;
        let url = format!("http://{}", listener.local_addr().map_err(unusable)?);
        Ok(HttpServer { listener, origins, accepts_any_host, url })
    }

    /// Returns the URL of the Model Context Protocol.
    pub(crate) fn mcp_url(&self) -> String {
        format!("{}{PATH}", self.url)
    }

    /// Serves until the process is stopped.
    pub(crate) async fn serve(
        self,
        tokens: Tokens,
        tenants: HashMap<String, Tenant>,
        previews: Option<Previews>,
    ) {
        let endpoint = Endpoint::new(tokens, tenants, self.origins, self.accepts_any_host);
        let endpoint = Arc::new(endpoint.with_previews(previews));
        accept_connections(self.listener, move |request, proof| {
            let endpoint = Arc::clone(&endpoint);
            async move { endpoint.answer(request, &proof).await }
        })
        .await;
    }
}

/// Answers the requests of all connections, until the future is dropped. A client with a token gives its proof.
async fn accept_connections<A, F>(listener: TcpListener, answer: A)
where
    A: Fn(Request<Incoming>, Proof) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let mut connections = Connections::new(CONNECTIONS);
    loop {
        connections.room().await;
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = connections.ended() => continue,
        };
        let Ok((stream, _)) = accepted else {
            // Too many open files. Some may be closed in a moment.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let answer = answer.clone();
        connections.serve(|proof| async move {
            let answer = service_fn(|request| {
                let answered = answer(request, proof.clone());
                async move { Ok::<_, Infallible>(answered.await) }
            });
            // The timer closes connections whose next request head arrives too slowly.
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), answer)
                // A terminal then has the connection.
                .with_upgrades()
                .await;
        });
        // Handle what it has already sent before the next connection may evict it.
        tokio::task::yield_now().await;
    }
}
