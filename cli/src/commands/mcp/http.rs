//! The MCP server over streamable HTTP, on the loopback interface and with a bearer token.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited, combinators::BoxBody};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use koze_local::{Connections, Proof};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;

use super::offer::Supervised;
use super::origins::Origins;
use super::refusals::{protocol_error, refuse_method, refused, with_json};
use super::{calls, files, sandboxes};
use crate::commands::show;
use crate::mcp::MAX_REQUEST;
use crate::mcp::sealed::{self, Refused};
use crate::mcp::server::Server;

/// The environment variable that holds the token.
const TOKEN: &str = "KOZE_MCP_TOKEN";
/// The minimum length of a configured token, in bytes.
const SHORTEST: usize = 16;
/// The endpoint's path.
const PATH: &str = "/mcp";
/// The maximum number of connections. Unauthenticated ones may use half of it; beyond that, the oldest one is closed.
/// Each connection takes a file descriptor, and another one for its call.
const CONNECTIONS: usize = 256;
/// The maximum number of sessions of the older protocol.
const SESSIONS: usize = 1024;
/// The idle timeout of such a session: long enough for a pausing user and for the longest command.
const SILENCE: Duration = Duration::from_hours(2);

/// The methods of the protocol.
const METHODS: [Method; 3] = [Method::POST, Method::GET, Method::DELETE];

type Service = StreamableHttpService<Server<Supervised>, LocalSessionManager>;
/// The body of a response. An error cuts it off.
pub(super) type Body = BoxBody<Bytes, std::io::Error>;
pub(super) type Answer = Response<Body>;

/// Returns a body that is complete.
pub(super) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

/// Returns a response that is JSON.
pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The address to listen on, and the origins to allow.
pub(super) struct Listen {
    address: SocketAddr,
    origins: Origins,
}

impl Listen {
    /// Validates the arguments.
    ///
    /// # Errors
    /// Returns a message that says what is wrong with the arguments.
    pub(super) fn new(address: &str, origins: &[String]) -> Result<Self, String> {
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

/// Serves until the process is stopped.
pub(super) async fn serve(
    server: Server<Supervised>,
    backend: Supervised,
    Listen { address, origins }: Listen,
) -> Result<(), String> {
    let (token, ours) = token()?;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| format!("--http: {address} cannot be used: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SILENCE);
    let sessions = Arc::new(sessions);
    // A foreign `Host` is rejected by default. The allowed origins were checked when the arguments were parsed.
    let config = StreamableHttpServerConfig::default().with_max_request_body_bytes(MAX_REQUEST);
    let service = Service::new(move || Ok(server.clone()), Arc::clone(&sessions), config);
    let expected = digest(format!("Bearer {token}").as_bytes());
    let endpoint = Arc::new(Endpoint { service, backend, sessions, origins, expected });
    show::err(&format!("koze mcp: http://{address}{PATH}\n"));
    if ours {
        show::err(&format!("koze mcp: Authorization: Bearer {token}\n"));
    }
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

/// Returns the token, and whether it was generated.
fn token() -> Result<(String, bool), String> {
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

/// The HTTP endpoint.
struct Endpoint {
    service: Service,
    backend: Supervised,
    sessions: Arc<LocalSessionManager>,
    origins: Origins,
    /// The digest of the required `Authorization` header.
    expected: Vec<u8>,
}

impl Endpoint {
    async fn answer(&self, request: Request<Incoming>, proof: &Proof) -> Answer {
        let origin = request.headers().get(ORIGIN).cloned();
        if !self.origins.allow(request.headers()) {
            return refused(
                StatusCode::FORBIDDEN,
                "forbidden",
                "this origin is not allowed: see --allow-origin",
            );
        }
        let mut answer = if Origins::is_preflight(&request) {
            no_content()
        } else {
            self.answer_client(request, proof).await
        };
        if let Some(origin) = origin {
            Origins::add_headers(origin, answer.headers_mut());
        }
        answer
    }

    async fn answer_client(&self, request: Request<Incoming>, proof: &Proof) -> Answer {
        let given = request.headers().get(AUTHORIZATION).map(|value| digest(value.as_bytes()));
        // Compare digests, so that timing reveals nothing about the token.
        if given.as_deref() != Some(&*self.expected) {
            let message = "the header `Authorization: Bearer` must carry the token of this server";
            let mut answer = refused(StatusCode::UNAUTHORIZED, "unauthorized", message);
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return answer;
        }
        proof.give();
        if let Some(route) = files::Route::of(request.uri().path()) {
            return Box::pin(files::answer(&self.backend, route, request)).await;
        }
        if let Some(route) = calls::Route::of(request.uri().path()) {
            return calls::answer(&self.backend, route, request).await;
        }
        if let Some(route) = sandboxes::Route::parse(request.uri().path()) {
            return sandboxes::answer(&self.backend, route, request.method()).await;
        }
        if request.uri().path() != PATH {
            let message = "not found: the endpoint of the Model Context Protocol is /mcp";
            return refused(StatusCode::NOT_FOUND, "not_found", message);
        }
        if !METHODS.contains(request.method()) {
            return refuse_method("POST, GET, DELETE");
        }
        let known = request.headers().contains_key("mcp-session-id");
        if !known && self.sessions.sessions.read().await.len() >= SESSIONS {
            let message = "too many clients are connected: try again later";
            return refused(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        }
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MAX_REQUEST).collect().await else {
            let message = "a request must be complete and have at most 64 MiB";
            return refused(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message);
        };
        let body = body.to_bytes();
        let body = match sealed::sealed(&body) {
            Ok(sealed) => sealed.map_or(body, Bytes::from),
            Err(Refused::TooLarge(error)) => {
                return refused(StatusCode::PAYLOAD_TOO_LARGE, error.code.as_str(), &error.message);
            }
            Err(Refused::Protocol(error)) => return protocol_error(&error),
        };
        let answer = self.service.handle(Request::from_parts(head, Full::new(body))).await;
        let answer = answer.map(|body| body.map_err(|never| match never {}).boxed());
        if answer.status().is_client_error() { with_json(answer).await } else { answer }
    }
}

fn digest(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

fn no_content() -> Answer {
    let mut response = Response::new(whole(""));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
