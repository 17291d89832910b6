//! HTTP/1 within a tunnel: the host of each request is checked, because a server that several hosts share would serve
//! another of them.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::inspection::{self, Passed};
use super::masked;
use super::metered::Metered;
use super::proxy::{IDLE, bad_request, host_and_port};
use super::reach::Reach;
use crate::http::{self, After, Body, Refusal, Server};
use crate::idle::Idle;
use crate::tunnel::join_streams;
use koze_core::egress::{Host, Refused};
use koze_state::Reached;

/// The requests within a tunnel to a host.
pub(crate) struct Requests {
    reach: Arc<Reach>,
    host: Host,
    port: u16,
    /// Whether they came over TLS, and go on over TLS.
    tls: bool,
    entry: Mutex<Entry>,
    link: Mutex<Link>,
}

/// The connection to the server.
enum Link {
    /// Nothing was sent yet.
    New(Idle<Metered<TcpStream>>),
    /// It takes requests, unless the server has closed it between two of them.
    Open(Server<Body>),
    /// The server has closed it.
    Closed,
}

/// The journal entry of the tunnel.
struct Entry {
    reached: Reached,
    /// Whether a request was allowed. Another request that is denied then gets an entry of its own.
    is_used: bool,
}

impl Requests {
    pub(crate) fn new(reach: Arc<Reach>, host: Host, reached: Reached, tls: bool) -> Self {
        let port = reached.port;
        let entry = Mutex::new(Entry { reached, is_used: false });
        Requests { reach, host, port, tls, entry, link: Mutex::new(Link::Closed) }
    }

    /// Forwards the requests of a client to the server until the client disconnects.
    pub(crate) async fn serve<C>(self, client: C, server: Idle<Metered<TcpStream>>)
    where
        C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        *self.link.lock().await = Link::New(server);
        let this = Arc::new(self);
        http::serve_connection(client, |request, after| {
            let this = Arc::clone(&this);
            async move {
                let forwarded = Arc::clone(&this).forward(request, &after).await;
                forwarded.unwrap_or_else(|refusal| {
                    this.note_refusal(&refusal);
                    refusal.into_response()
                })
            }
        })
        .await;
    }

    /// Adds a refusal to the result of the tool call: programs that end TLS here may not show it.
    fn note_refusal(&self, refusal: &Refusal) {
        if let Some(refusals) = &self.reach.refusals {
            refusals.add(self.host.in_url(), self.port, refusal);
        }
    }

    async fn forward(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        after: &After,
    ) -> Result<Response<Body>, Refusal> {
        if request.method() == Method::CONNECT {
            return Err(bad_request("a tunnel cannot be requested within a tunnel"));
        }
        let (inner, host) = self.check(&request).await?;
        let wanted = http::upgrade_protocol(request.headers()).filter(keeps_hosts);
        http::for_the_next(&mut request);
        request.headers_mut().insert(header::HOST, host);
        let mut request = request.map(BodyExt::boxed_unsync);
        let passed = self.decide(&inner, &mut request).await?;
        if let Err(refused) = self.reach.meter.count_request(&inner) {
            return Err(self.refuse(&inner, StatusCode::TOO_MANY_REQUESTS, refused).await);
        }
        if let Some(wanted) = &wanted {
            http::set_upgrade(request.headers_mut(), wanted.clone());
        }
        *request.uri_mut() = request.uri().path_and_query().cloned().map(Uri::from).unwrap_or_default();
        let client = wanted.map(|_| hyper::upgrade::on(&mut request));
        let mut response = self.send(request).await?;
        let granted = http::upgrade_protocol(response.headers());
        http::end_to_end(response.headers_mut());
        masked::mask_head(&mut response, &passed, &self.host.to_string())?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(if passed.mask.is_empty() {
                http::pass_on(response, self)
            } else {
                masked::pass_masked(response, passed.mask, self)
            });
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

    /// Checks the host of a request. Returns it, and the only `Host` that is forwarded.
    async fn check(&self, request: &Request<Incoming>) -> Result<(Host, HeaderValue), Refusal> {
        let Some((inner, value, port)) = requested_host(request, self.tls)? else {
            // An old client: the server learns which host the tunnel leads to.
            let value = format!("{}:{}", self.host.in_url(), self.port);
            let value =
                HeaderValue::try_from(value).map_err(|_| bad_request("the host of the tunnel is invalid"))?;
            return Ok((self.host.clone(), value));
        };
        let Err(refused) = self.judge_host(&inner, port) else {
            let mut entry = self.entry.lock().await;
            entry.is_used = true;
            let name = Some(inner.to_string());
            if inner != self.host && entry.reached.sni != name {
                entry.reached.sni = name;
                self.reach.journal.note(&entry.reached).await;
            }
            return Ok((inner, value));
        };
        let Refused { rule, text } = refused;
        let refused = Refused { rule: format!("HTTP host: {rule}"), text };
        Err(self.refuse(&inner, StatusCode::FORBIDDEN, refused).await)
    }

    /// Checks a host that a request names. Where requests are read, it is that of the tunnel: its rules would apply to another one.
    fn judge_host(&self, inner: &Host, port: u16) -> Result<(), Refused> {
        let policy = &self.reach.policy;
        let is_read = policy.inspects(&self.host, self.port) || policy.inspects(inner, self.port);
        if is_read && (*inner != self.host || (self.tls && port != self.port)) {
            let text = format!(
                "a request in a connection to {}:{} may not name another host or port, because requests to this host are read",
                self.host, self.port
            );
            return Err(Refused { rule: "not that of the connection".to_owned(), text });
        }
        policy.judge_inner(&self.host, inner, self.port)
    }

    /// Decides about a request, and replaces placeholders in it.
    async fn decide(&self, inner: &Host, request: &mut Request<Body>) -> Result<Passed, Refusal> {
        let passed = match inspection::decide(&self.reach, self.tls, inner, self.port, request).await {
            Ok(passed) => passed,
            Err(refused) => return Err(self.refuse(inner, StatusCode::FORBIDDEN, refused).await),
        };
        if let Some(rule) = passed.journal_rule() {
            let mut entry = self.entry.lock().await;
            if entry.reached.rule != rule {
                entry.reached.rule = rule;
                self.reach.journal.note(&entry.reached).await;
            }
        }
        Ok(passed)
    }

    /// Records a request that is refused.
    async fn refuse(&self, inner: &Host, status: StatusCode, refused: Refused) -> Refusal {
        let entry = self.entry.lock().await;
        let mut reached = entry.reached.clone();
        if entry.is_used {
            reached = self.reach.journal.entry(&self.host.to_string(), self.port);
            reached.address = entry.reached.address;
        }
        reached.sni = Some(inner.to_string());
        self.reach.refuse(&mut reached, status, refused).await
    }

    /// Sends a request. Connects again if the server has closed the connection, also while a request was sent that can be repeated.
    async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, Refusal> {
        let failed = |error: &hyper::Error| {
            let text = format!("{} {}", self.host, http::no_answer(error));
            Refusal::new(StatusCode::BAD_GATEWAY, text)
        };
        let mut link = self.link.lock().await;
        let stream = match std::mem::replace(&mut *link, Link::Closed) {
            Link::New(stream) => Some(stream),
            Link::Closed => None,
            Link::Open(mut open) => {
                if open.is_ready().await {
                    let copy = copy_repeatable(&request);
                    match open.send(request).await {
                        Ok(response) => {
                            *link = Link::Open(open);
                            return Ok(response);
                        }
                        Err(mut error) => {
                            let unsent = error.take_message();
                            let error = error.into_error();
                            request = match unsent.or(copy.filter(|_| http::is_closed(&error))) {
                                Some(again) => again,
                                None => return Err(failed(&error)),
                            };
                        }
                    }
                }
                None
            }
        };
        let stream = match stream {
            Some(stream) => stream,
            None => Idle::new(self.reach.connect(&self.host.in_url(), self.port).await?.stream, IDLE),
        };
        let mut open = match self.reach.inspection.as_ref().filter(|_| self.tls) {
            Some(inspection) => Server::open(inspection.connect(stream, &self.host).await?).await,
            None => Server::open(stream).await,
        }
        .map_err(|error| failed(&error))?;
        let sent = open.send(request).await.map_err(|error| failed(&error.into_error()));
        *link = Link::Open(open);
        sent
    }
}

/// Returns a copy of a request that changes nothing and has no body: a server may close a connection just when it is sent.
/// Source: <https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2>.
fn copy_repeatable(request: &Request<Body>) -> Option<Request<Body>> {
    let is_repeatable = request.method().is_safe() && request.body().is_end_stream();
    is_repeatable.then(|| {
        let mut copy = Request::new(http::empty_body());
        request.method().clone_into(copy.method_mut());
        request.uri().clone_into(copy.uri_mut());
        request.headers().clone_into(copy.headers_mut());
        copy
    })
}

/// Returns the host that a request names, and the value of its `Host`. A URL in the request line takes precedence over
/// the header, as for servers.
fn requested_host(
    request: &Request<Incoming>,
    tls: bool,
) -> Result<Option<(Host, HeaderValue, u16)>, Refusal> {
    let (scheme, usual) = if tls { ("https", 443) } else { ("http", 80) };
    let mut headers = request.headers().get_all(header::HOST).iter();
    let (first, second) = (headers.next(), headers.next());
    if second.is_some() {
        return Err(bad_request("a request has one `Host`"));
    }
    let uri = request.uri();
    let authority = match (uri.authority(), first) {
        (Some(authority), _) if uri.scheme_str() == Some(scheme) => authority.clone(),
        (Some(_), _) => {
            return Err(bad_request(&format!(
                "the URL of a request within this tunnel begins with `{scheme}://`"
            )));
        }
        (None, None) => return Ok(None),
        (None, Some(value)) if value.is_empty() => return Ok(None),
        // User information has no place in this header, and servers differ in what they make of it.
        (None, Some(value)) if value.as_bytes().contains(&b'@') => return Err(invalid_request()),
        (None, Some(value)) => Authority::try_from(value.as_bytes()).map_err(|_| invalid_request())?,
    };
    let (value, _) = host_and_port(&authority).ok_or_else(invalid_request)?;
    let host = Host::parse(authority.host()).ok_or_else(invalid_request)?;
    Ok(Some((host, value, authority.port_u16().unwrap_or(usual))))
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
