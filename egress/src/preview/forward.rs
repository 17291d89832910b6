//! Forwards requests of browsers to servers in sandboxes.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::address::Address;
use crate::http::{self, After, Body, Refusal};
use crate::tunnel::join_streams;
use koze_core::error::{Code, Error};
use koze_state::Proof;

/// A connection to a server in a sandbox.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A server in a sandbox, which stays awake while this exists.
pub trait Server: Send + Sync {
    /// Returns the name of the sandbox.
    fn sandbox(&self) -> &str;

    /// Returns the port.
    fn port(&self) -> u16;

    /// Connects to the server, and wakes the sandbox if it sleeps. The caller may stop waiting.
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Stream>, Refusal>>;
}

/// Finds the servers of previews.
pub trait FindServer: Send + Sync {
    /// Returns the server at an address. Without the right token, the refusal does not even reveal whether the name exists:
    /// [`unknown_preview`].
    fn find<'a>(&'a self, address: Address<'a>) -> BoxFuture<'a, Result<Port, Refusal>>;
}

/// Serves a connection of a browser.
pub(crate) async fn serve_browser(stream: TcpStream, proof: Proof, servers: Arc<dyn FindServer>) {
    http::serve_connection(stream, |request, after| {
        let (servers, proof) = (Arc::clone(&servers), proof.clone());
        async move {
            forward_request(&*servers, &proof, request, after).await.unwrap_or_else(Refusal::into_response)
        }
    })
    .await;
}

async fn forward_request(
    servers: &dyn FindServer,
    proof: &Proof,
    request: Request<Incoming>,
    after: After,
) -> Result<Response<Body>, Refusal> {
    let host = requested_host(&request).ok_or_else(unknown_preview)?;
    let text = host.to_str().map_err(|_| unknown_preview())?.to_ascii_lowercase();
    // The token decides, whatever the host: `koze serve` forwards requests for hosts of its own.
    let address = Address::parse_any(&text).ok_or_else(unknown_preview)?;
    let to = servers.find(address).await?;
    proof.give();
    if request.method() == Method::CONNECT {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this is not a proxy"));
    }
    // Only a hint for the program, as from every proxy.
    let is_https = request.headers().get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let came = Came { host, scheme: HeaderValue::from_static(if is_https { "https" } else { "http" }) };
    to.pass(request, came, after).await
}

/// A port of a sandbox. The sandbox stays awake while this exists.
#[derive(Clone)]
pub struct Port(Arc<dyn Server>);

/// The origin of a request: the host it was sent to, and `http` or `https`.
#[derive(Clone)]
pub struct Came {
    /// The value of the header `Host`.
    pub host: HeaderValue,
    /// The scheme.
    pub scheme: HeaderValue,
}

impl Came {
    /// Returns the origin of a request for an absolute URL.
    pub(crate) fn of_url(url: &Uri) -> Option<Self> {
        let host = HeaderValue::from_str(url.authority()?.as_str()).ok()?;
        Some(Came { host, scheme: HeaderValue::from_static("http") })
    }
}

impl Port {
    /// Creates it for a server.
    pub fn new(server: impl Server + 'static) -> Self {
        Port(Arc::new(server))
    }

    /// Forwards a request to the server on the port, and returns its response. A WebSocket continues after the
    /// response.
    ///
    /// # Errors
    /// If the server cannot be reached, or does not answer with HTTP/1.1.
    pub async fn pass(
        self,
        mut request: Request<Incoming>,
        Came { host, scheme }: Came,
        after: After,
    ) -> Result<Response<Body>, Refusal> {
        let Port(target) = self;
        let (name, port) = (target.sandbox().to_owned(), target.port());
        let server = target.connect().await?;

        let wanted = http::upgrade_protocol(request.headers());
        http::for_the_next(&mut request);
        let headers = request.headers_mut();
        // Exactly once, as the browser sent it.
        headers.insert(header::HOST, host.clone());
        headers.insert(HeaderName::from_static("x-forwarded-host"), host);
        headers.insert(HeaderName::from_static("x-forwarded-proto"), scheme);
        if let Some(wanted) = &wanted {
            http::set_upgrade(headers, wanted.clone());
        }
        *request.uri_mut() = request.uri().path_and_query().cloned().map(Uri::from).unwrap_or_default();
        let browser = wanted.map(|_| hyper::upgrade::on(&mut request));
        let (mut response, driver) = http::forward_request(server, request).await.map_err(|error| {
            let text = format!("the server on port {port} of the sandbox {name} {}", http::no_answer(&error));
            Refusal::new(StatusCode::BAD_GATEWAY, text)
        })?;

        let granted = http::upgrade_protocol(response.headers());
        http::end_to_end(response.headers_mut());
        for_this_host(response.headers_mut());
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(http::pass_on(response, (driver, target)));
        }
        let (Some(browser), Some(granted)) = (browser, granted) else {
            let text = format!(
                "the server on port {port} of the sandbox {name} switched protocols without a request for it"
            );
            return Err(Refusal::new(StatusCode::BAD_GATEWAY, text));
        };
        http::set_upgrade(response.headers_mut(), granted);
        let server = hyper::upgrade::on(&mut response);
        after.set(async move {
            if let (Ok(browser), Ok(server)) = tokio::join!(browser, server) {
                join_streams(TokioIo::new(browser), TokioIo::new(server)).await;
            }
            drop((driver, target));
        });
        let mut switched = http::empty_response(StatusCode::SWITCHING_PROTOCOLS);
        *switched.headers_mut() = response.headers().clone();
        Ok(switched)
    }
}

/// Returns the host of a request. An absolute URL in the request line takes precedence over the header.
fn requested_host(request: &Request<Incoming>) -> Option<HeaderValue> {
    if let Some(authority) = request.uri().authority() {
        return HeaderValue::from_str(authority.as_str()).ok();
    }
    let mut all = request.headers().get_all(header::HOST).iter();
    all.next().filter(|_| all.next().is_none()).cloned()
}

/// The refusal of an address without a sandbox, or with another token.
pub fn unknown_preview() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "no sandbox answers here: use the URL exactly as `browse` returned it",
    )
}

/// Returns the refusal for an error.
pub fn unavailable_preview(error: Error) -> Refusal {
    match error.code {
        Code::NotFound => unknown_preview(),
        _ => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.message),
    }
}

/// Restricts cookies to the preview's own host: with a domain, they would be sent to all its subdomains.
fn for_this_host(headers: &mut HeaderMap) {
    let is_domain = |attribute: &[u8]| {
        let name = attribute.split(|byte| *byte == b'=').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"domain")
    };
    let all: Vec<HeaderValue> = headers.get_all(header::SET_COOKIE).iter().cloned().collect();
    headers.remove(header::SET_COOKIE);
    for cookie in all {
        let parts = cookie.as_bytes().split(|byte| *byte == b';').enumerate();
        let kept: Vec<&[u8]> =
            parts.filter(|(at, part)| *at == 0 || !is_domain(part)).map(|(_, part)| part).collect();
        if let Ok(cookie) = HeaderValue::from_bytes(&kept.join(&b';')) {
            headers.append(header::SET_COOKIE, cookie);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_have_no_domain() {
        let mut headers = HeaderMap::new();
        let set = [
            ("a=1", "a=1"),
            ("b=domain=x; Path=/; HttpOnly", "b=domain=x; Path=/; HttpOnly"),
            ("c=1; Domain=example.com; Path=/", "c=1; Path=/"),
            ("d=1;domain = .example.com;DOMAIN", "d=1"),
            ("domain=1; domains=2", "domain=1; domains=2"),
        ];
        for (cookie, _) in set {
            headers.append(header::SET_COOKIE, HeaderValue::from_static(cookie));
        }
        for_this_host(&mut headers);
        let left: Vec<_> = headers.get_all(header::SET_COOKIE).iter().collect();
        assert_eq!(left, set.map(|(_, left)| left));
    }
}
