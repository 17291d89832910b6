//! HTTP for both proxies and for scripts: serves connections, forwards requests, and creates responses.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::TrySendError;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version, client, server};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use crate::linger::Linger;

/// How long a client may take to send the head of a request, and how long it may wait before the next one.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// The maximum length of the head of a request or response, in bytes.
const HEAD_SIZE: usize = 64 << 10;

/// Hop-by-hop headers.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A body that is forwarded.
pub type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// Work to do on a connection after its last response, if that turned it into a tunnel.
#[derive(Clone, Default)]
pub struct After(Arc<Mutex<Option<Work>>>);

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl After {
    /// Sets the work.
    pub fn set(&self, work: impl Future<Output = ()> + Send + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::pin(work));
    }

    /// Does the work, if there is any.
    pub async fn run(self) {
        let work = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(work) = work {
            work.await;
        }
    }
}

/// Serves a connection until it ends. Dropping the future stops everything that it started.
pub async fn serve_connection<I, F>(stream: I, answer: impl Fn(Request<Incoming>, After) -> F)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Response<Body>>,
{
    let after = After::default();
    let is_tunnel = Arc::<AtomicBool>::default();
    let service = service_fn(|request| {
        let answer = answer(request, after.clone());
        async { Ok::<_, Infallible>(answer.await) }
    });
    let served = server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_SIZE)
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(Linger::new(stream, Arc::clone(&is_tunnel))), service)
        .with_upgrades()
        .await;
    if served.is_ok() {
        is_tunnel.store(true, Ordering::Relaxed);
        after.run().await;
    }
}

/// The task that drives a connection to a server while it is held.
pub type Driver = JoinSet<()>;

/// A connection to a server, which forwards one request after another.
pub(crate) struct Server<B> {
    sender: client::conn::http1::SendRequest<B>,
    driver: Driver,
}

impl<B> Server<B>
where
    B: hyper::body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    pub(crate) async fn open<I>(stream: I) -> hyper::Result<Self>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = client::conn::http1::Builder::new()
            .max_buf_size(HEAD_SIZE)
            .preserve_header_case(true)
            .handshake(TokioIo::new(stream))
            .await?;
        let mut driver = Driver::new();
        driver.spawn(async move {
            let _ = connection.with_upgrades().await;
        });
        Ok(Server { sender, driver })
    }

    /// Waits until the last response is complete. Returns whether the server takes another request.
    pub(crate) async fn is_ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Forwards a request, and returns the head of the response. If nothing of the request was sent because the server
    /// has closed the connection, the request is in the error.
    pub(crate) async fn send(
        &mut self,
        mut request: Request<B>,
    ) -> Result<Response<Incoming>, TrySendError<Request<B>>> {
        *request.version_mut() = Version::HTTP_11;
        let mut response = self.sender.try_send_request(request).await?;
        *response.version_mut() = Version::HTTP_11;
        Ok(response)
    }
}

/// Forwards a request over a new connection, and returns the head of the response.
///
/// # Errors
/// If the server does not answer with HTTP/1.1.
pub async fn forward_request<I, B>(
    stream: I,
    request: Request<B>,
) -> hyper::Result<(Response<Incoming>, Driver)>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: hyper::body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut server = Server::open(stream).await?;
    let response = server.send(request).await.map_err(TrySendError::into_error)?;
    Ok((response, server.driver))
}

/// Removes hop-by-hop headers from a request, and sets the length of its body again.
pub(crate) fn for_the_next(request: &mut Request<Incoming>) {
    end_to_end(request.headers_mut());
    // For methods that usually have no body, hyper would drop one of unknown length.
    if !request.body().is_end_stream() && !request.headers().contains_key(header::CONTENT_LENGTH) {
        request.headers_mut().insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// Removes hop-by-hop headers.
pub(crate) fn end_to_end(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        // These always describe the message, even if `Connection` lists them.
        .filter(|name| *name != header::HOST && *name != header::CONTENT_LENGTH)
        .collect();
    // With `Transfer-Encoding`, `Content-Length` must not be trusted.
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Returns the protocol of an upgrade.
pub(crate) fn upgrade_protocol(headers: &HeaderMap) -> Option<HeaderValue> {
    let tokens = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let asked =
        tokens.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case("upgrade"));
    headers.get(header::UPGRADE).filter(|_| asked).cloned()
}

pub(crate) fn set_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

/// Forwards a response. `keep` is held until its last byte has been sent.
pub(crate) fn pass_on(response: Response<Incoming>, keep: impl Send + 'static) -> Response<Body> {
    response.map(|body| Held { body, _keep: keep }.boxed_unsync())
}

/// Returns a body of these bytes.
pub(crate) fn full_body(bytes: Bytes) -> Body {
    Full::from(bytes).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// Returns an empty body.
pub(crate) fn empty_body() -> Body {
    full_body(Bytes::new())
}

/// Returns a response without a body.
pub fn empty_response(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(empty_body());
    *response.status_mut() = status;
    response
}

/// An error response with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its status.
    pub status: StatusCode,
    /// Its text.
    pub text: String,
}

impl Refusal {
    /// Creates it.
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Refusal { status, text: text.into() }
    }

    /// Returns the response.
    pub fn into_response(self) -> Response<Body> {
        let mut response = Response::new(full_body(format!("koze: {}\n", self.text).into()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// Returns whether a server closed the connection without a response.
pub(crate) fn is_closed(error: &hyper::Error) -> bool {
    !has_timed_out(error) && !error.is_parse()
}

fn has_timed_out(error: &hyper::Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
}

/// Describes why a response cannot be forwarded.
pub fn no_answer(error: &hyper::Error) -> &'static str {
    if has_timed_out(error) {
        "took too long to answer"
    } else if error.is_parse() {
        "did not answer with HTTP/1.1, or its response head is too long"
    } else {
        "closed the connection without a response"
    }
}

/// A body that holds a value until it has been read.
struct Held<K> {
    body: Incoming,
    _keep: K,
}

impl<K> Unpin for Held<K> {}

impl<K> hyper::body::Body for Held<K> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Mine"),
            ("connection", "host, content-length"),
            ("x-mine", "1"),
            ("x-other", "2"),
            ("host", "a"),
            ("content-length", "3"),
            ("proxy-authorization", "secret"),
            ("keep-alive", "timeout=5"),
            ("upgrade", "h2c"),
            ("te", "trailers"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        end_to_end(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "host", "x-other"]);
    }
}
