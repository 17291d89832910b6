//! The protocol over streamable HTTP: on the loopback interface, for those who have the token.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;

use super::server::Server;
use crate::commands::show;

/// The variable that holds the token.
const TOKEN: &str = "KOZE_MCP_TOKEN";
/// The shortest token somebody may choose, in bytes.
const SHORTEST: usize = 16;
/// The path of the endpoint.
const PATH: &str = "/mcp";
/// The largest request: a file that a model writes, as JSON.
const MAX_BODY: usize = 64 << 20;

type Service = StreamableHttpService<Server, LocalSessionManager>;
type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Serves until the program is ended.
pub(super) async fn serve(server: Server, address: &str, origins: &[String]) -> Result<(), String> {
    let address: SocketAddr =
        address.parse().map_err(|_| format!("--http: `{address}` is no address such as 127.0.0.1:8080"))?;
    if !address.ip().is_loopback() {
        let text = "the tools run commands: they are served on the loopback interface alone";
        return Err(format!("--http: {address} is no address of this machine alone: {text}"));
    }
    let (token, ours) = token()?;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| format!("--http: {address} cannot be used: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let config = StreamableHttpServerConfig::default()
        .with_max_request_body_bytes(MAX_BODY)
        .with_allowed_origins(origins)
        .enforce_origin_validation();
    let service = Service::new(move || Ok(server.clone()), Arc::default(), config);
    show::err(&format!("koze mcp: http://{address}{PATH}\n"));
    if ours {
        show::err(&format!("koze mcp: Authorization: Bearer {token}\n"));
    }
    let expected: Arc<[u8]> = digest(format!("Bearer {token}").as_bytes()).into();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Too much is open; a moment later less may be.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let (service, expected) = (service.clone(), Arc::clone(&expected));
        let answer = service_fn(move |request| answer(service.clone(), Arc::clone(&expected), request));
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), answer);
        tokio::spawn(connection);
    }
}

/// The token, and whether it was made now.
fn token() -> Result<(String, bool), String> {
    match std::env::var(TOKEN) {
        Ok(token) if token.len() < SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(format!("{TOKEN} is no token: take at least {SHORTEST} letters, digits and signs, no spaces"))
        }
        Ok(token) => Ok((token, false)),
        Err(std::env::VarError::NotUnicode(_)) => Err(format!("{TOKEN} is not UTF-8")),
        Err(std::env::VarError::NotPresent) => {
            let mut random = [0; 32];
            let read = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
            read.map_err(|error| format!("the system has no random numbers: {error}"))?;
            Ok((random.iter().map(|byte| format!("{byte:02x}")).collect(), true))
        }
    }
}

async fn answer(
    service: Service,
    expected: Arc<[u8]>,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    let given = request.headers().get(AUTHORIZATION).map(|value| digest(value.as_bytes()));
    // Digests: how long the comparison takes says nothing of the token.
    if given.as_deref() != Some(&*expected) {
        let mut refused = text(
            StatusCode::UNAUTHORIZED,
            "the header `Authorization: Bearer` needs the token of this server\n",
        );
        refused.headers_mut().insert(WWW_AUTHENTICATE, hyper::header::HeaderValue::from_static("Bearer"));
        return Ok(refused);
    }
    if request.uri().path() != PATH {
        return Ok(text(StatusCode::NOT_FOUND, "the endpoint is /mcp\n"));
    }
    Ok(service.handle(request).await)
}

fn digest(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

fn text(status: StatusCode, text: &'static str) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}
