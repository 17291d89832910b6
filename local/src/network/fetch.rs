//! Sends the requests of scripts, which have no network themselves, to the hosts that the project allows for scripts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use koze_egress::http::{self, Refusal};
use koze_egress::{Internet, LOOKUPS, Metered, Reach, authorities, code_of_status};
use koze_state::{EgressJournal, Reached};

use crate::engine;
use koze_core::SessionId;
use koze_core::egress::Policy;
use koze_core::error::{Code, Error, Result};
use koze_core::script::{Egress, Exchange, Exchanged};

/// Sends the requests of scripts.
#[derive(Debug)]
pub(in super::super) struct Fetching {
    state: PathBuf,
    internet: Arc<Internet>,
    /// The limit on concurrent lookups of each agent, so that names that resolve slowly delay only its own scripts.
    lookups: Mutex<HashMap<String, Weak<Semaphore>>>,
    tls: OnceLock<Arc<ClientConfig>>,
}

impl Fetching {
    pub(in super::super) fn new(state: &Path, internet: Arc<Internet>) -> Self {
        Fetching { state: state.to_owned(), internet, lookups: Mutex::default(), tls: OnceLock::new() }
    }

    /// Returns the semaphore of an agent's lookups.
    fn lookups(&self, agent: &str) -> Arc<Semaphore> {
        let mut all = self.lookups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(agent).and_then(Weak::upgrade) {
            return known;
        }
        all.retain(|_, known| known.strong_count() > 0);
        let new = Arc::new(Semaphore::new(LOOKUPS));
        all.insert(agent.to_owned(), Arc::downgrade(&new));
        new
    }

    /// Sends a request, and returns the response. The connection is closed when the future is dropped.
    pub(in super::super) async fn send(
        &self,
        agent: &SessionId,
        egress: &Egress,
        exchange: Exchange,
    ) -> Result<Exchanged> {
        let Some(policy) = Policy::of_scripts(egress)? else {
            let text = "scripts of this project may not reach the internet";
            return Err(Error::new(Code::PermissionDenied, text));
        };
        let journal = EgressJournal::new(&self.state, agent.session(), Reached::SCRIPTS);
        let (internet, lookups) = (Arc::clone(&self.internet), self.lookups(&agent.key()));
        let reach = Reach::new(policy, internet, journal).with_lookups(lookups);
        let tls = exchange.tls.then(|| self.tls()).transpose()?;
        engine::run_while_waited(async move {
            let time = exchange.time;
            timeout(time, send_exchange(&reach, exchange, tls))
                .await
                .unwrap_or_else(|_| Err(Error::new(Code::Timeout, "the server did not answer in time")))
        })
        .await
    }

    /// Records that a rule refused a request.
    pub(in super::super) async fn record_refusal(
        &self,
        agent: &SessionId,
        host: &str,
        port: u16,
        rule: &str,
    ) {
        let journal = EgressJournal::new(&self.state, agent.session(), Reached::SCRIPTS);
        journal.refuse(&mut journal.entry(host, port), rule).await;
    }

    /// Returns the TLS configuration, which trusts Mozilla's authorities, and those of this machine.
    fn tls(&self) -> Result<Arc<ClientConfig>> {
        if let Some(known) = self.tls.get() {
            return Ok(Arc::clone(known));
        }
        let config = authorities::client_config(&self.internet)?;
        Ok(Arc::clone(self.tls.get_or_init(|| config)))
    }
}

async fn send_exchange(
    reach: &Reach,
    exchange: Exchange,
    tls: Option<Arc<ClientConfig>>,
) -> Result<Exchanged> {
    let host = exchange.host.clone();
    let mut connected = reach.connect(&host, exchange.port).await.map_err(refused_error)?;
    reach.note_credentials(&mut connected, &exchange.credentials).await;
    let stream = connected.stream;
    match tls {
        Some(config) => exchange_over(start_tls(stream, config, &host).await?, exchange).await,
        None => exchange_over(stream, exchange).await,
    }
}

fn refused_error(Refusal { status, text }: Refusal) -> Error {
    Error::new(code_of_status(status), text)
}

/// Performs the TLS handshake with the host.
async fn start_tls(
    stream: Metered<TcpStream>,
    config: Arc<ClientConfig>,
    host: &str,
) -> Result<tokio_rustls::client::TlsStream<Metered<TcpStream>>> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = ServerName::try_from(bare.strip_suffix('.').unwrap_or(bare).to_owned()).map_err(|_| {
        Error::new(Code::InvalidInput, format!("{host} cannot be the name in a TLS certificate: use `http:`"))
    })?;
    TlsConnector::from(config).connect(name, stream).await.map_err(|error| {
        let why = error
            .get_ref()
            .and_then(|cause| cause.downcast_ref::<rustls::Error>())
            .map_or_else(|| error.kind().to_string(), ToString::to_string);
        Error::new(Code::Unavailable, format!("{host} cannot be reached with TLS: {why}")).with_source(error)
    })
}

/// Sends the request over a connection, and reads the response.
async fn exchange_over<I>(stream: I, exchange: Exchange) -> Result<Exchanged>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let host = exchange.host.clone();
    let longest = exchange.longest;
    let failed = |text: &str| Error::new(Code::Unavailable, format!("{host} {text}"));
    // The connection is open while this is held.
    let (response, _driver) = http::forward_request(stream, build_request(exchange)?)
        .await
        .map_err(|error| failed(http::no_answer(&error)))?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(failed("changes the protocol, which nothing requested"));
    }
    let (head, body) = response.into_parts();
    let headers = head.headers.iter();
    let headers = headers.map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    let mut exchanged =
        Exchanged { status: head.status.as_u16(), headers: headers.collect(), body: Vec::new() };
    if exchanged.location().is_none() {
        exchanged.body = read_body(Response::new(body), longest, &host).await?;
    }
    Ok(exchanged)
}

fn build_request(exchange: Exchange) -> Result<Request<Full<Bytes>>> {
    let invalid =
        |what: &str| Error::new(Code::InvalidInput, format!("the {what} cannot be sent in HTTP/1.1"));
    let Exchange { method, tls, host, port, target, headers, body, .. } = exchange;
    let uri = Uri::try_from(target).map_err(|_| invalid("path or query of the URL"))?;
    let usual = if tls { 443 } else { 80 };
    let authority = if port == usual { host } else { format!("{host}:{port}") };
    let mut request = Request::new(Full::from(body.clone().unwrap_or_default()));
    *request.method_mut() = method.as_str().parse().map_err(|_| invalid("method"))?;
    *request.uri_mut() = uri;
    let all = request.headers_mut();
    for (name, value) in headers {
        let name = HeaderName::try_from(&name).map_err(|_| invalid("name of a header"))?;
        all.insert(name, HeaderValue::try_from(value).map_err(|_| invalid("value of a header"))?);
    }
    // Last, so that no header of a script takes its place.
    all.insert(header::HOST, HeaderValue::try_from(authority).map_err(|_| invalid("host"))?);
    Ok(request)
}

/// Reads a body up to a length.
async fn read_body(response: Response<Incoming>, longest: usize, host: &str) -> Result<Vec<u8>> {
    let mut body = response.into_body();
    let too_long = || Error::new(Code::TooLarge, format!("the response of {host} is too long"));
    if body.size_hint().lower() > longest as u64 {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let text = format!("{host} closed the connection before the end of its response");
            Error::new(Code::Unavailable, text).with_source(error)
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > longest - bytes.len() {
            return Err(too_long());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_are_limited_for_each_agent() {
        let fetching = Fetching::new(Path::new("/nonexistent"), Arc::default());
        let (one, other) = (fetching.lookups("one"), fetching.lookups("other"));
        let _all = one.try_acquire_many(u32::try_from(LOOKUPS).unwrap()).unwrap();
        assert!(fetching.lookups("one").try_acquire().is_err());
        assert!(other.try_acquire().is_ok());
        // Agents without requests are forgotten.
        drop(other);
        let _third = fetching.lookups("third");
        assert_eq!(fetching.lookups.lock().unwrap().len(), 2);
    }
}
