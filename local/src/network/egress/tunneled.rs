//! HTTP/1 within a tunnel: the host of each request is checked, because a server that several hosts share would serve
//! another of them.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;

use super::super::http::{self, After, Body, Refusal, Server};
use super::super::idle::Idle;
use super::super::tunnel::join_streams;
use super::host::Host;
use super::journal::Reached;
use super::policy::Refused;
use super::proxy::{IDLE, bad_request, host_and_port};
use super::reach::Reach;

/// The requests within a tunnel to a host.
pub(super) struct Requests {
    reach: Arc<Reach>,
    host: Host,
    port: u16,
    entry: Mutex<Entry>,
    /// The connection to the server, which is opened again if the server closes it between two requests.
    server: Mutex<Option<Server<Incoming>>>,
}

/// The journal entry of the tunnel.
struct Entry {
    reached: Reached,
    /// Whether a request was allowed. Another request that is denied then gets an entry of its own.
    is_used: bool,
}

impl Requests {
    pub(super) fn new(reach: Arc<Reach>, host: Host, reached: Reached) -> Self {
        let port = reached.port;
        let entry = Mutex::new(Entry { reached, is_used: false });
        Requests { reach, host, port, entry, server: Mutex::default() }
    }

    /// Forwards the requests of a client to the server until the client disconnects.
    pub(super) async fn serve<C, S>(self, client: C, server: S)
    where
        C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Ok(server) = Server::open(server).await else { return };
        *self.server.lock().await = Some(server);
        let this = Arc::new(self);
        http::serve_connection(client, |request, after| {
            let this = Arc::clone(&this);
            async move { this.forward(request, &after).await.unwrap_or_else(Refusal::into_response) }
        })
        .await;
    }

    async fn forward(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        after: &After,
    ) -> Result<Response<Body>, Refusal> {
        if request.method() == Method::CONNECT {
            return Err(bad_request("a tunnel cannot be requested within a tunnel"));
        }
        let host = self.check(&request).await?;
        let wanted = http::upgrade_protocol(request.headers()).filter(keeps_hosts);
        http::for_the_next(&mut request);
        request.headers_mut().insert(header::HOST, host);
        if let Some(wanted) = &wanted {
            http::set_upgrade(request.headers_mut(), wanted.clone());
        }
        *request.uri_mut() = request.uri().path_and_query().cloned().map(Uri::from).unwrap_or_default();
        let client = wanted.map(|_| hyper::upgrade::on(&mut request));
        let mut response = self.send(request).await?;
        let granted = http::upgrade_protocol(response.headers());
        http::end_to_end(response.headers_mut());
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(http::pass_on(response, self));
        }
        let (Some(client), Some(granted)) = (client, granted) else {
            let text = format!("{} switched protocols without a request for it", self.host);
            return Err(Refusal::new(StatusCode::BAD_GATEWAY, text));
        };
        http::set_upgrade(response.headers_mut(), granted);
        let server = hyper::upgrade::on(&mut response);
        after.set(async move {
            if let (Ok(client), Ok(server)) = tokio::join!(client, server) {
                join_streams(TokioIo::new(client), TokioIo::new(server)).await;
            }
            drop(self);
        });
        let mut switched = http::empty_response(StatusCode::SWITCHING_PROTOCOLS);
        *switched.headers_mut() = response.headers().clone();
        Ok(switched)
    }

    /// Checks the host of a request. Returns the only `Host` that is forwarded.
    async fn check(&self, request: &Request<Incoming>) -> Result<HeaderValue, Refusal> {
        let Some((inner, value)) = requested_host(request)? else {
            // An old client: the server learns which host the tunnel leads to.
            let value = format!("{}:{}", self.host.in_url(), self.port);
            return HeaderValue::try_from(value)
                .map_err(|_| bad_request("the host of the tunnel is invalid"));
        };
        let judged = self.reach.policy.judge_inner(&self.host, &inner, self.port);
        let mut entry = self.entry.lock().await;
        let Err(refused) = judged else {
            entry.is_used = true;
            let name = Some(inner.to_string());
            if inner != self.host && entry.reached.sni != name {
                entry.reached.sni = name;
                self.reach.journal.note(&entry.reached).await;
            }
            return Ok(value);
        };
        let mut reached = entry.reached.clone();
        if entry.is_used {
            reached = self.reach.journal.entry(&self.host, self.port);
            reached.address = entry.reached.address;
        }
        reached.sni = Some(inner.to_string());
        let Refused { rule, text } = refused;
        let refused = Refused { rule: format!("HTTP host: {rule}"), text: text.clone() };
        self.reach.journal.refused(&mut reached, &refused).await;
        Err(Refusal::new(StatusCode::FORBIDDEN, text))
    }

    /// Sends a request. Connects again if the server has closed the connection.
    async fn send(&self, mut request: Request<Incoming>) -> Result<Response<Incoming>, Refusal> {
        let failed = |error: &hyper::Error| {
            let text = format!("{} {}", self.host, http::no_answer(error));
            Refusal::new(StatusCode::BAD_GATEWAY, text)
        };
        let mut server = self.server.lock().await;
        if let Some(open) = &mut *server
            && open.is_ready().await
        {
            match open.send(request).await {
                Ok(response) => return Ok(response),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(failed(&error.into_error())),
                },
            }
        }
        let stream = Idle::new(self.reach.connect(&self.host.in_url(), self.port).await?.stream, IDLE);
        let open = server.insert(Server::open(stream).await.map_err(|error| failed(&error))?);
        open.send(request).await.map_err(|error| failed(&error.into_error()))
    }
}

/// Returns the host that a request names, and the value of its `Host`. A URL in the request line takes precedence over
/// the header, as for servers.
fn requested_host(request: &Request<Incoming>) -> Result<Option<(Host, HeaderValue)>, Refusal> {
    let mut headers = request.headers().get_all(header::HOST).iter();
    let (first, second) = (headers.next(), headers.next());
    if second.is_some() {
        return Err(bad_request("a request has one `Host`"));
    }
    let uri = request.uri();
    let authority = match (uri.authority(), first) {
        (Some(authority), _) if uri.scheme_str() == Some("http") => authority.clone(),
        (Some(_), _) => {
            return Err(bad_request("the URL of a request within this tunnel begins with `http://`"));
        }
        (None, None) => return Ok(None),
        (None, Some(value)) if value.is_empty() => return Ok(None),
        // User information has no place in this header, and servers differ in what they make of it.
        (None, Some(value)) if value.as_bytes().contains(&b'@') => return Err(invalid_request()),
        (None, Some(value)) => Authority::try_from(value.as_bytes()).map_err(|_| invalid_request())?,
    };
    let (value, _) = host_and_port(&authority).ok_or_else(invalid_request)?;
    let host = Host::parse(authority.host()).ok_or_else(invalid_request)?;
    Ok(Some((host, value)))
}

fn invalid_request() -> Refusal {
    bad_request(
        "the `Host` of a request must be a hostname or an address, and may have a port: `example.com:8080`",
    )
}

/// Returns whether requests for other hosts cannot follow an upgrade to a protocol. With HTTP/2 and TLS, they could.
fn keeps_hosts(protocols: &HeaderValue) -> bool {
    protocols.to_str().is_ok_and(|protocols| {
        protocols.split(',').all(|protocol| {
            let name = protocol.split('/').next().unwrap_or_default().trim().to_ascii_lowercase();
            !matches!(name.as_str(), "h2" | "h2c" | "http" | "tls")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upgrades_to_protocols_with_hosts() {
        for (protocols, wanted) in [
            ("websocket", true),
            ("SPDY/3.1", true),
            ("h2c", false),
            ("websocket, H2C", false),
            ("TLS/1.2, HTTP/1.1", false),
            ("HTTP/2.0", false),
        ] {
            assert_eq!(keeps_hosts(&HeaderValue::from_static(protocols)), wanted, "{protocols}");
        }
    }
}
