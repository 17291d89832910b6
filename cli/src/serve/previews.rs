//! Previews through the server: requests for subdomains of a host are forwarded to the ports of sandboxes that `browse` has
//! exposed. The subdomain has the token of the sandbox, as on this machine; the tokens of the server are never forwarded.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, Incoming};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode};
use koze_core::http::Tokens;
use koze_core::tool::{Content, Reply};
use koze_egress::http::{self, After, Refusal};
use koze_egress::preview::{Address, Came, Port, Server, Stream, unknown_preview};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::answer::{Answer, stream_body};
use crate::provider::Proof;
use crate::session::Client;

/// How many pieces wait for a slow client.
const AHEAD: usize = 4;
/// How many sandboxes have URLs at most. Another one replaces any of them, whose URL works again after the next `browse`.
const MAX_KNOWN: usize = 10_000;

/// The previews of a server. A clone is the same.
#[derive(Clone)]
pub(crate) struct Previews {
    scheme: &'static str,
    /// The host, in lower case, with its port if the URL has one.
    authority: String,
    /// The sessions whose sandboxes have URLs, by the tokens of these.
    known: Arc<Mutex<HashMap<String, Client>>>,
}

impl Previews {
    /// Creates the previews of a host: `https://previews.example.com`, or with `http` and a port.
    ///
    /// # Errors
    /// Returns a message about the URL.
    pub(crate) fn new(url: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            Err(format!("--preview-url: `{url}` {why}: it is a URL such as https://previews.example.com"))
        };
        let Ok(uri) = url.parse::<hyper::Uri>() else { return wrong("is not a URL") };
        let scheme = match uri.scheme_str() {
            Some("http") => "http",
            Some("https") => "https",
            _ => return wrong("begins with neither http:// nor https://"),
        };
        let Some(authority) = uri.authority() else { return wrong("has no host") };
        let host = authority.host();
        if host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok() {
            return wrong("has an address, which cannot have subdomains");
        }
        if authority.as_str().contains('@') || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return wrong("has more than a host and a port");
        }
        let authority = authority.as_str().to_ascii_lowercase();
        Ok(Previews { scheme, authority, known: Arc::default() })
    }

    /// Replaces the URL in a result of `browse`, which leads to this machine, with one that leads to the server.
    pub(crate) fn publish(&self, client: &Client, mut reply: Reply) -> Reply {
        let Content::Json(result) = &mut reply.content else { return reply };
        let host = result["url"].as_str().and_then(|url| url.strip_prefix("http://"));
        let host = host.and_then(|rest| rest.split('/').next()).map(str::to_owned);
        let Some(Address { port, name, token }) = host.as_deref().and_then(Address::parse) else {
            return reply;
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN && !known.contains_key(token) {
            let any = known.keys().next().cloned();
            any.and_then(|any| known.remove(&any));
        }
        known.insert(token.to_owned(), client.clone());
        result["url"] = format!("{}://{port}-{name}-{token}.{}/", self.scheme, self.authority).into();
        reply
    }

    /// Returns the subdomain that a request is for, if it is one of this host.
    pub(super) fn find_label<B>(&self, request: &Request<B>) -> Option<String> {
        let host = requested_host(request)?.to_ascii_lowercase();
        let own = self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host);
        let host = host.rsplit_once(':').map_or(host.as_str(), |(host, _)| host);
        let label = host.strip_suffix(own)?.strip_suffix('.')?;
        Some(label.to_owned())
    }

    /// Forwards a request for a subdomain. One with the token of a sandbox gives `proof`.
    pub(super) async fn forward(
        &self,
        label: &str,
        request: Request<Incoming>,
        tokens: &Tokens,
        proof: &Proof,
    ) -> Answer {
        let forwarded = self.forward_to_sandbox(label, request, tokens, proof).await;
        into_answer(forwarded.unwrap_or_else(Refusal::into_response))
    }

    async fn forward_to_sandbox(
        &self,
        label: &str,
        mut request: Request<Incoming>,
        tokens: &Tokens,
        proof: &Proof,
    ) -> Result<Response<http::Body>, Refusal> {
        let host = requested_host(&request).and_then(|host| HeaderValue::try_from(host).ok());
        let host = host.ok_or_else(unknown_preview)?;
        // Parsed as on this machine.
        let local = format!("{label}.localhost");
        let address = Address::parse(&local).ok_or_else(unknown_preview)?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(address.token).cloned();
        let client = known.ok_or_else(unknown_preview)?;
        proof.give();
        let unavailable =
            |error: koze_core::Error| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.message);
        // The supervisor is asked each time: nobody else can then have its port.
        let listening = client.preview_port().await.map_err(unavailable)?.ok_or_else(unknown_preview)?;
        remove_tokens(request.headers_mut(), tokens);
        let scheme = HeaderValue::from_static(self.scheme);
        let target = Supervised { name: address.name.to_owned(), port: address.port, listening };
        let after = After::default();
        let response = Port::new(target).pass(request, Came { host, scheme }, after.clone()).await?;
        // A WebSocket goes on once its handshake has been sent.
        tokio::spawn(after.run());
        Ok(response)
    }
}

/// Returns the host of a request. An absolute URL in the request line takes precedence over the header.
fn requested_host<B>(request: &Request<B>) -> Option<String> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.as_str().to_owned());
    }
    let mut all = request.headers().get_all(HOST).iter();
    let host = all.next().filter(|_| all.next().is_none())?;
    host.to_str().ok().map(str::to_owned)
}

/// Removes each header with a token of the server. A program in the sandbox may have an `Authorization` of its own.
fn remove_tokens(headers: &mut HeaderMap, tokens: &Tokens) {
    let is_own = |value: &HeaderValue| tokens.are_in(&String::from_utf8_lossy(value.as_bytes()));
    let own: Vec<_> =
        headers.iter().filter(|(_, value)| is_own(value)).map(|(name, _)| name.clone()).collect();
    for name in own {
        headers.remove(name);
    }
}

/// The server of previews of a supervisor, for a port of a sandbox.
struct Supervised {
    name: String,
    port: u16,
    listening: u16,
}

impl Server for Supervised {
    fn sandbox(&self) -> &str {
        &self.name
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Stream>, Refusal>> {
        async move {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, self.listening)).await {
                Ok(stream) => Ok(Box::new(stream) as Box<dyn Stream>),
                Err(error) => {
                    let text = format!("the previews of this session cannot be reached: {}", error.kind());
                    Err(Refusal::new(StatusCode::BAD_GATEWAY, text))
                }
            }
        }
        .boxed()
    }
}

/// Returns a response whose body arrives piece by piece.
fn into_answer(response: Response<http::Body>) -> Answer {
    let (sender, pieces) = mpsc::channel(AHEAD);
    let (parts, mut body) = response.into_parts();
    tokio::spawn(async move {
        while let Some(frame) = body.frame().await {
            let piece = match frame.map(Frame::into_data) {
                Ok(Ok(data)) => Ok(Frame::data(data)),
                // Trailers are not forwarded.
                Ok(Err(_)) => continue,
                Err(error) => Err(std::io::Error::other(error)),
            };
            let is_last = piece.is_err();
            if sender.send(piece).await.is_err() || is_last {
                return;
            }
        }
    });
    Response::from_parts(parts, stream_body(pieces))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_with_subdomains() {
        for url in ["https://p.example", "http://p.localhost:8787/", "HTTP://P.example"] {
            assert!(Previews::new(url).is_ok(), "{url}");
        }
        for url in
            ["", "p.example", "ftp://p", "https://1.2.3.4", "http://[::1]:1", "https://a@b", "https://a/b"]
        {
            assert!(Previews::new(url).is_err(), "{url}");
        }
    }

    #[test]
    fn subdomains_of_the_host_are_found() {
        let previews = Previews::new("https://P.example:8443").unwrap();
        let label =
            |host: &str| previews.find_label(&Request::builder().header(HOST, host).body(()).unwrap());
        assert_eq!(label("80-a-T.p.EXAMPLE:8443").as_deref(), Some("80-a-t"));
        assert_eq!(label("80-a-t.p.example").as_deref(), Some("80-a-t"));
        for host in ["p.example", "xp.example", "80-a-t.p.example.org", "localhost:8443"] {
            assert_eq!(label(host), None, "{host}");
        }
    }
}
