//! The route `/mcp`: the Model Context Protocol over streamable HTTP, in both of its versions.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, StatusCode};
use koze_core::http::Query;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::answer::{Answer, protocol_error, refuse_error, refuse_method, refused, with_json};
use super::body::read_body;
use super::tenants::Tenant;
use crate::mcp::MAX_REQUEST;
use crate::mcp::sealed::{self, Refused};
use crate::mcp::server::Server;

/// The path of the route.
pub(super) const PATH: &str = "/mcp";
/// The header that names a session of sandboxes; `?session=` works as well.
const SESSION: &str = "koze-session";
/// The idle timeout of a client of the older protocol: long enough for a pausing user and for the longest command.
const SILENCE: Duration = Duration::from_hours(2);
/// The methods of the protocol.
const METHODS: [Method; 3] = [Method::POST, Method::GET, Method::DELETE];

/// Returns a list for the clients of the older protocol.
pub(super) fn new_clients() -> Arc<LocalSessionManager> {
    let mut clients = LocalSessionManager::default();
    clients.session_config.keep_alive = Some(SILENCE);
    Arc::new(clients)
}

/// Returns the settings of the protocol. A server behind a proxy accepts every name of a host: each request has a token, which
/// no web page knows.
pub(super) fn settings(accepts_any_host: bool) -> StreamableHttpServerConfig {
    let settings = StreamableHttpServerConfig::default().with_max_request_body_bytes(MAX_REQUEST);
    if accepts_any_host { settings.disable_allowed_hosts() } else { settings }
}

/// Answers a request of a tenant.
pub(super) async fn answer(
    tenant: &Tenant,
    settings: &StreamableHttpServerConfig,
    query: &Query,
    request: Request<Incoming>,
) -> Result<Answer, Answer> {
    let header = request.headers().get(SESSION).and_then(|session| session.to_str().ok());
    let named = header.or_else(|| query.get("session").map(String::as_str));
    let session = named.unwrap_or_else(|| tenant.default_session()).to_owned();
    let backend = tenant.open(&session, query.get("tools").map(String::as_str)).map_err(refuse_error)?;
    if !METHODS.contains(request.method()) {
        return Err(refuse_method("POST, GET, DELETE"));
    }
    let is_new = !request.headers().contains_key("mcp-session-id");
    let clients = tenant.clients(&session, is_new).await.map_err(refuse_error)?;
    let server = Server::new(backend).map_err(refuse_error)?;
    let (head, body) = request.into_parts();
    let body = read_body(body).await?;
    // The others have no message: GET opens a stream, and DELETE ends a session.
    let sealed = if head.method == Method::POST { sealed::sealed(&body) } else { Ok(None) };
    let body = match sealed {
        Ok(sealed) => sealed.map_or(body, Bytes::from),
        Err(Refused::TooLarge(error)) => {
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, error.code.as_str(), &error.message));
        }
        Err(Refused::Protocol(error)) => return Err(protocol_error(&error)),
    };
    // A server of its own, because each request names its session and its tools.
    let service = StreamableHttpService::new(move || Ok(server.clone()), clients, settings.clone());
    let answer = service.handle(Request::from_parts(head, Full::new(body))).await;
    let answer = answer.map(|body| body.map_err(|never| match never {}).boxed());
    Ok(if answer.status().is_client_error() { with_json(answer).await } else { answer })
}
