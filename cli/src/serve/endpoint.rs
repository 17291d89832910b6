//! The HTTP endpoint: authenticates clients, and routes requests.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest, Sha256};

use super::answer::{Answer, no_content, protocol_error, refuse_method, refused, with_json};
use super::origins::Origins;
use super::{calls, files, sandboxes};
use crate::mcp::MAX_REQUEST;
use crate::mcp::sealed::{self, Refused};
use crate::mcp::server::Server;
use crate::mcp::supervised::Supervised;
use crate::provider::Proof;

/// The path of the Model Context Protocol.
pub(super) const PATH: &str = "/mcp";
/// The maximum number of sessions of the older protocol.
const SESSIONS: usize = 1024;
/// The idle timeout of such a session: long enough for a pausing user and for the longest command.
const SILENCE: Duration = Duration::from_hours(2);

/// The methods of the protocol.
const METHODS: [Method; 3] = [Method::POST, Method::GET, Method::DELETE];

type Service = StreamableHttpService<Server, LocalSessionManager>;

/// The HTTP endpoint.
pub(super) struct Endpoint {
    service: Service,
    backend: Supervised,
    sessions: Arc<LocalSessionManager>,
    origins: Origins,
    /// The digest of the required `Authorization` header.
    expected: Vec<u8>,
}

impl Endpoint {
    /// Creates the endpoint for clients with a token.
    pub(super) fn new(server: Server, backend: Supervised, origins: Origins, token: &str) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SILENCE);
        let sessions = Arc::new(sessions);
        // A foreign `Host` is rejected by default. The allowed origins were checked when the arguments were parsed.
        let config = StreamableHttpServerConfig::default().with_max_request_body_bytes(MAX_REQUEST);
        let service = Service::new(move || Ok(server.clone()), Arc::clone(&sessions), config);
        let expected = sha256_digest(format!("Bearer {token}").as_bytes());
        Endpoint { service, backend, sessions, origins, expected }
    }

    /// Answers a request. A client with the token gives `proof`.
    pub(super) async fn answer(&self, request: Request<Incoming>, proof: &Proof) -> Answer {
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
        let given = request.headers().get(AUTHORIZATION).map(|value| sha256_digest(value.as_bytes()));
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
        // The others have no message: GET opens a stream, and DELETE ends a session.
        let sealed = if head.method == Method::POST { sealed::sealed(&body) } else { Ok(None) };
        let body = match sealed {
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

fn sha256_digest(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}
