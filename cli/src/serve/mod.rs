//! The HTTP server of `koze mcp --http`: the Model Context Protocol, calls, and files, on the loopback interface and with a
//! bearer token. The Worker serves the same routes.
//!
//! | module | job |
//! |---|---|
//! | `endpoint` | authenticates clients, and routes requests |
//! | `origins` | CORS |
//! | `calls`, `files`, `trees`, `sandboxes` | the routes below `/sessions` |
//! | `route` | the parts of a URL |
//! | `answer` | responses |

mod answer;
mod calls;
mod endpoint;
mod files;
mod origins;
mod route;
mod sandboxes;
mod trees;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use self::endpoint::{Endpoint, PATH};
use self::origins::Origins;
use crate::mcp::server::Server;
use crate::mcp::supervised::Supervised;
use crate::provider::Connections;

/// The environment variable that holds the token.
const TOKEN: &str = "KOZE_MCP_TOKEN";
/// The minimum length of a configured token, in bytes.
const SHORTEST: usize = 16;
/// The maximum number of connections. Unauthenticated ones may use half of it; beyond that, the oldest one is closed.
/// Each connection takes a file descriptor, and another one for its call.
const CONNECTIONS: usize = 256;

/// The address to listen on, and the origins to allow.
pub(crate) struct Listen {
    address: SocketAddr,
    origins: Origins,
}

impl Listen {
    /// Validates the arguments.
    ///
    /// # Errors
    /// Returns a message that says what is wrong with the arguments.
    pub(crate) fn new(address: &str, origins: &[String]) -> Result<Self, String> {
        let address: SocketAddr = address
            .parse()
            .map_err(|_| format!("--http: `{address}` is not an address such as 127.0.0.1:8080"))?;
        if !address.ip().is_loopback() {
            let text = "the tools run commands, so they are served only on the loopback interface";
            return Err(format!("--http: {address} can be reached from elsewhere: {text}"));
        }
        Ok(Listen { address, origins: Origins::new(origins)? })
    }
}

/// A server that listens.
pub(crate) struct HttpServer {
    listener: TcpListener,
    origins: Origins,
    token: String,
    /// The URL of the Model Context Protocol.
    pub(crate) url: String,
    /// The token, if it was generated and the user does not know it.
    pub(crate) new_token: Option<String>,
}

impl HttpServer {
    /// Listens.
    ///
    /// # Errors
    /// Returns a message about the address or the token.
    pub(crate) async fn bind(Listen { address, origins }: Listen) -> Result<Self, String> {
        let (token, is_new) = read_or_create_token()?;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| format!("--http: {address} cannot be used: {error}"))?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let (url, new_token) = (format!("http://{address}{PATH}"), is_new.then(|| token.clone()));
        Ok(HttpServer { listener, origins, token, url, new_token })
    }

    /// Serves until the process is stopped.
    pub(crate) async fn serve(self, server: Server, backend: Supervised) {
        let endpoint = Arc::new(Endpoint::new(server, backend, self.origins, &self.token));
        let mut connections = Connections::new(CONNECTIONS);
        loop {
            connections.room().await;
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = connections.ended() => continue,
            };
            let Ok((stream, _)) = accepted else {
                // Too many open files. Some may be closed in a moment.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let endpoint = Arc::clone(&endpoint);
            connections.serve(|proof| async move {
                let answer = service_fn(|request| {
                    let (endpoint, proof) = (Arc::clone(&endpoint), proof.clone());
                    async move { Ok::<_, Infallible>(endpoint.answer(request, &proof).await) }
                });
                // The timer closes connections whose next request head arrives too slowly.
                let _ = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
            // Handle what it has already sent before the next connection may evict it.
            tokio::task::yield_now().await;
        }
    }
}

/// Returns the token, and whether it was generated.
fn read_or_create_token() -> Result<(String, bool), String> {
    match std::env::var(TOKEN) {
        Ok(token) if token.len() < SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(format!(
                "{TOKEN} is not a valid token: use at least {SHORTEST} letters, digits and symbols, without spaces"
            ))
        }
        Ok(token) => Ok((token, false)),
        Err(std::env::VarError::NotUnicode(_)) => Err(format!("{TOKEN} is not UTF-8")),
        Err(std::env::VarError::NotPresent) => {
            let mut random = [0; 32];
            let read = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
            read.map_err(|error| format!("the system has no source of random numbers: {error}"))?;
            Ok((random.map(|byte| format!("{byte:02x}")).concat(), true))
        }
    }
}
