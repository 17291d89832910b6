//! What the proxy of a sandbox needs to read requests: the authority with whose certificates TLS ends here, and the values of
//! credentials.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Uri};
use rustls::pki_types::ServerName;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::authority::Authority;
use super::reach::{Reach, credentials_rule};
use crate::http::{self, Body, Refusal};
use koze_core::egress::{Decision, Host, Key, Mask, Policy, Refused, RequestHead, environment};
use koze_core::error::Result;
use koze_state::Secrets;

/// The file in a sandbox with the certificates that its programs trust, without the leading slash.
pub const BUNDLE: &str = "var/lib/koze/certificates.pem";
/// The files of the system with the certificates that programs trust, without the leading slash: those of Debian and Alpine, and of
/// Fedora.
pub const TRUST_STORES: [&str; 2] =
    ["etc/ssl/certs/ca-certificates.crt", "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"];
/// The variables that programs read the name of such a file from: OpenSSL, Go and Deno's and Rust's TLS; Node; Python's requests; pip; curl;
/// git; Deno; Cargo; the AWS command line.
pub const TRUST_VARIABLES: [&str; 9] = [
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "DENO_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
];
/// How many bytes of a body are read because a signature covers it.
const MAX_SIGNED_BODY: usize = 16 << 20;
/// The timeout of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(15);

/// What the proxy of a sandbox needs to read requests.
#[derive(Debug)]
pub struct Inspection {
    authority: Arc<Authority>,
    /// The credentials by name, with their placeholders.
    placeholders: Vec<(String, String)>,
    secrets: Option<Arc<Secrets>>,
}

impl Inspection {
    /// Creates it for a sandbox with this key.
    pub fn new(
        authority: Arc<Authority>,
        sandbox: &str,
        policy: &Policy,
        secrets: Option<Arc<Secrets>>,
    ) -> Self {
        let placeholder = |name: &String| (name.clone(), authority.placeholder(sandbox, name));
        let placeholders = policy.credentials().map(|credential| placeholder(&credential.name)).collect();
        Inspection { authority, placeholders, secrets }
    }

    /// Returns the file with the certificates that programs trust.
    pub fn bundle(&self) -> &Path {
        self.authority.bundle()
    }

    /// Returns the environment variables of programs: the placeholders, and which certificates to trust.
    pub fn environment(&self, policy: &Policy) -> Vec<(String, String)> {
        let mut all = environment(policy, &self.keys_with(|_| None));
        all.extend(TRUST_VARIABLES.map(|name| (name.to_owned(), format!("/{BUNDLE}"))));
        all
    }

    /// Returns the credentials with their current values.
    fn keys(&self) -> Result<Vec<Key>> {
        let values = self.secrets.as_ref().map(|secrets| secrets.values()).transpose()?.unwrap_or_default();
        let value =
            |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned());
        Ok(self.keys_with(value))
    }

    fn keys_with(&self, value: impl Fn(&str) -> Option<String>) -> Vec<Key> {
        let key = |(name, placeholder): &(String, String)| Key {
            name: name.clone(),
            worker_secret: name.clone(),
            placeholder: placeholder.clone(),
            value: value(name),
        };
        self.placeholders.iter().map(key).collect()
    }

    /// Ends the TLS of a program that wants to connect to a host.
    pub(crate) async fn accept<C>(
        &self,
        client: C,
        host: &Host,
    ) -> std::result::Result<server::TlsStream<C>, String>
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        let config = self.authority.server(&host.to_string()).map_err(|error| error.message)?;
        match timeout(HANDSHAKE, TlsAcceptor::from(config).accept(client)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the handshake took too long".to_owned()),
        }
    }

    /// Begins TLS with a host, and verifies its certificate.
    pub(crate) async fn connect<S>(
        &self,
        server: S,
        host: &Host,
    ) -> std::result::Result<client::TlsStream<S>, Refusal>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let refuse = |why: &str| {
            Refusal::new(StatusCode::BAD_GATEWAY, format!("{host} cannot be reached with TLS: {why}"))
        };
        let name = ServerName::try_from(host.to_string())
            .map_err(|_| refuse("no certificate can have this name"))?;
        match timeout(HANDSHAKE, TlsConnector::from(self.authority.upstream()).connect(name, server)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(refuse(&error.to_string())),
            Err(_) => Err(refuse("the handshake took too long")),
        }
    }
}

/// What was decided about a request that is forwarded.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// The rule that allows it. Empty if only its host was checked.
    pub(crate) rule: String,
    /// The names of the credentials whose values are in it.
    pub(crate) credentials: Vec<String>,
    /// The values that must not be in the response.
    pub(crate) mask: Mask,
}

impl Passed {
    /// Returns the rule for the journal. Without credentials, it is that of the connection.
    pub(crate) fn journal_rule(&self) -> Option<String> {
        (!self.credentials.is_empty()).then(|| credentials_rule(&self.rule, &self.credentials))
    }
}

/// Decides about a request, and replaces placeholders in it. Its hop-by-hop headers are removed, and its host is checked. A body that a
/// signature covers is read.
pub(crate) async fn decide(
    reach: &Reach,
    tls: bool,
    host: &Host,
    port: u16,
    request: &mut Request<Body>,
) -> std::result::Result<Passed, Refused> {
    if !reach.policy.inspects_any() {
        return Ok(Passed::default());
    }
    let keys =
        reach.inspection.as_ref().map(|inspection| inspection.keys()).transpose().map_err(|error| {
            let text = format!("the values of credentials cannot be read: {}", error.message);
            Refused { rule: "credentials: cannot be read".to_owned(), text }
        })?;
    let keys = keys.unwrap_or_default();
    let mask = if tls { Mask::of_host(&reach.policy, host, port, &keys) } else { Mask::default() };
    let judge = |request: &Request<Body>, body_sha256: Option<&str>| {
        let headers = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let head = RequestHead {
            tls,
            host,
            port,
            method: request.method().as_str(),
            target: request.uri().path_and_query().map_or("/", |target| target.as_str()),
            headers: headers.collect(),
            body_sha256,
        };
        reach.policy.decide(&head, &keys)
    };
    let mut decision = judge(request, None);
    if decision == Decision::ReadBody {
        let hash = read_body(request).await?;
        decision = judge(request, Some(&hash));
    }
    let (rule, credentials, target, headers) = match decision {
        Decision::Deny(refused) => return Err(refused),
        Decision::ReadBody => unreachable!("the body has been read"),
        Decision::Allow { rule } => (rule, Vec::new(), None, Vec::new()),
        Decision::Replace { rule, credentials, target, headers } => {
            (rule, credentials, Some(target), headers)
        }
    };
    let invalid = || {
        let text = "the request is not valid with the value of a credential in it".to_owned();
        Refused { rule: format!("credentials: {} cannot be sent", credentials.join(", ")), text }
    };
    for (at, (_, value)) in request.headers_mut().iter_mut().enumerate() {
        if let Some((_, new)) = headers.iter().find(|(changed, _)| *changed == at) {
            *value = HeaderValue::from_bytes(new).map_err(|_| invalid())?;
            value.set_sensitive(true);
        }
    }
    if let Some(target) = target {
        *request.uri_mut() = Uri::try_from(target).map_err(|_| invalid())?;
    }
    if !mask.is_empty() {
        // A compressed response could not be masked.
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    Ok(Passed { rule, credentials, mask })
}

/// Reads the body of a request, which is forwarded all the same. Returns its SHA-256.
async fn read_body(request: &mut Request<Body>) -> std::result::Result<String, Refused> {
    let body = std::mem::replace(request.body_mut(), http::empty_body());
    let read = Limited::new(body, MAX_SIGNED_BODY).collect().await.map_err(|error| {
        let rule = "credentials: the body cannot be read".to_owned();
        let text = if error.is::<LengthLimitError>() {
            format!(
                "the signature of this request covers its body, which has more than {} MiB: koze cannot sign it again",
                MAX_SIGNED_BODY >> 20
            )
        } else {
            "the body of this request broke off".to_owned()
        };
        Refused { rule, text }
    })?;
    let bytes = read.to_bytes();
    let hash = HEXLOWER.encode(&Sha256::digest(&bytes));
    *request.body_mut() = http::full_body(bytes);
    Ok(hash)
}
