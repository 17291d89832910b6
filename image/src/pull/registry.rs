//! The requests to a registry.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use oci_client::client::{BlobResponse, Client, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE,
    OCI_IMAGE_MEDIA_TYPE,
};
use oci_client::secrets::RegistryAuth;
use oci_client::{Reference, RegistryOperation};
use reqwest::header::ACCEPT;
use reqwest::{Response, StatusCode};

use super::credentials::{self, Credentials};
use crate::digest::Digest;
use crate::errors::{Error, Result, at};
use crate::manifest::Descriptor;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a registry may send nothing.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// How often a request is sent if the connection fails or the registry is overloaded.
const ATTEMPTS: u32 = 5;
/// The wait before the second attempt, which doubles for each further one.
const WAIT: Duration = Duration::from_millis(250);
/// The documents that a manifest may be.
const MANIFESTS: [&str; 4] = [
    OCI_IMAGE_INDEX_MEDIA_TYPE,
    IMAGE_MANIFEST_LIST_MEDIA_TYPE,
    OCI_IMAGE_MEDIA_TYPE,
    IMAGE_MANIFEST_MEDIA_TYPE,
];
const AGENT: &str = concat!("koze/", env!("CARGO_PKG_VERSION"));

/// A repository of a registry.
pub(super) struct Registry {
    reference: Reference,
    client: Client,
    /// For manifests, whose size `oci-client` does not limit.
    http: reqwest::Client,
    protocol: &'static str,
    credentials: Credentials,
}

/// Why an attempt failed.
enum Failure {
    /// It may succeed later.
    Temporary(String),
    Final(Error),
}

impl Registry {
    pub(super) fn new(reference: &Reference) -> Result<Self> {
        // Another part of the program may have chosen one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let failed =
            |error: &dyn std::error::Error| Error::Registry(format!("cannot start a request: {error}"));
        let host = reference.resolve_registry();
        let is_plain = is_loopback(host);
        let config = ClientConfig {
            protocol: if is_plain { ClientProtocol::Http } else { ClientProtocol::Https },
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(READ_TIMEOUT),
            user_agent: AGENT,
            ..ClientConfig::default()
        };
        let client = Client::try_from(config).map_err(|error| failed(&error))?;
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .user_agent(AGENT)
            .build()
            .map_err(|error| failed(&error))?;
        let protocol = if is_plain { "http" } else { "https" };
        let credentials = credentials::find(reference);
        Ok(Self { reference: reference.clone(), client, http, protocol, credentials })
    }

    /// Returns the manifest of the reference, or one of its index.
    pub(super) async fn manifest(&self, chosen: Option<&Descriptor>, limit: u64) -> Result<Vec<u8>> {
        let text = self.retry(async || self.try_manifest(chosen, limit).await).await?;
        let named = self.reference.digest().map(Digest::parse).transpose()?;
        if let Some(expected) = chosen.map(|chosen| &chosen.digest).or(named.as_ref()) {
            check(expected, &text)?;
        }
        Ok(text)
    }

    /// Returns a small blob.
    pub(super) async fn blob(&self, descriptor: &Descriptor) -> Result<Vec<u8>> {
        let read = async || {
            let blob = self.client.pull_blob_stream(&self.reference, descriptor.digest.as_str()).await;
            let mut stream = blob.map_err(|error| self.failure(error))?.stream;
            let mut content = Vec::new();
            while let Some(bytes) = stream.try_next().await.map_err(|error| broken(&error))? {
                content.extend_from_slice(&bytes);
                if content.len() as u64 > descriptor.size {
                    return Err(Failure::Final(too_long(descriptor)));
                }
            }
            Ok(content)
        };
        let content = self.retry(read).await?;
        check(&descriptor.digest, &content)?;
        Ok(content)
    }

    /// Downloads a blob into an empty file, and goes on where an attempt was cut off. The digest is verified when the layer is
    /// unpacked.
    pub(super) async fn download(
        &self,
        descriptor: &Descriptor,
        file: &mut File,
        report: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let mut written = 0;
        let mut reported = 0;
        let mut attempt = 0;
        loop {
            let before = written;
            let done = self.try_download(descriptor, file, &mut written, &mut reported, report).await;
            match done {
                Ok(()) if written == descriptor.size => return Ok(()),
                Ok(()) if written > descriptor.size => return Err(too_long(descriptor)),
                // It ended early.
                Ok(()) => self.wait(&mut attempt, "the download ended early").await?,
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Temporary(why)) => {
                    // Only attempts without progress count: a slow line may be cut off more often.
                    if written > before {
                        attempt = 0;
                    }
                    self.wait(&mut attempt, &why).await?;
                }
            }
        }
    }

    async fn try_download(
        &self,
        descriptor: &Descriptor,
        file: &mut File,
        written: &mut u64,
        reported: &mut u64,
        report: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Failure> {
        let digest = descriptor.digest.as_str();
        let failed =
            |error: std::io::Error| Failure::Final(at("write", Path::new("a downloaded layer"))(error));
        let blob = match *written {
            0 => self.client.pull_blob_stream(&self.reference, digest).await.map(BlobResponse::Full),
            // `oci-client` asks for the range from there to the end.
            offset => self.client.pull_blob_stream_partial(&self.reference, digest, offset, None).await,
        };
        let mut stream = match blob.map_err(|error| self.failure(error))? {
            BlobResponse::Partial(blob) => blob.stream,
            // The registry knows no ranges, so it begins again.
            BlobResponse::Full(blob) => {
                file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(failed)?;
                *written = 0;
                blob.stream
            }
        };
        while let Some(bytes) = stream.try_next().await.map_err(|error| broken(&error))? {
            // What exceeds the size is not written.
            *written += bytes.len() as u64;
            if *written > descriptor.size {
                return Ok(());
            }
            file.write_all(&bytes).map_err(failed)?;
            if *written > *reported {
                report(*written - *reported);
                *reported = *written;
            }
        }
        Ok(())
    }

    /// Repeats a request until it succeeds or fails for good.
    async fn retry<T>(&self, mut request: impl AsyncFnMut() -> Result<T, Failure>) -> Result<T> {
        let mut attempt = 0;
        loop {
            match request().await {
                Ok(done) => return Ok(done),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Temporary(why)) => self.wait(&mut attempt, &why).await?,
            }
        }
    }

    /// Waits before the next attempt, or fails if there were enough.
    async fn wait(&self, attempt: &mut u32, why: &str) -> Result<()> {
        *attempt += 1;
        if *attempt == ATTEMPTS {
            let host = self.reference.resolve_registry();
            return Err(Error::Registry(format!("the registry {host} failed {ATTEMPTS} times: {why}")));
        }
        tokio::time::sleep(WAIT * 2_u32.pow(*attempt - 1)).await;
        Ok(())
    }

    async fn try_manifest(&self, chosen: Option<&Descriptor>, limit: u64) -> Result<Vec<u8>, Failure> {
        let mut token = self.token().await?;
        let mut response = self.request_manifest(chosen, token.as_deref()).await?;
        if response.status() == StatusCode::UNAUTHORIZED && token.is_none() {
            // An overloaded registry does not say that it needs a token.
            token = self.token().await?;
            response = self.request_manifest(chosen, token.as_deref()).await?;
        }
        if response.status() != StatusCode::OK {
            return Err(self.refused(response.status()));
        }
        let mut text = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(|error| broken(&error))? {
            text.extend_from_slice(&bytes);
            if text.len() as u64 > limit {
                let text = format!("the manifest of the image has more than {limit} bytes");
                return Err(Failure::Final(Error::refused(text)));
            }
        }
        Ok(text)
    }

    /// Returns a token, if the registry wants one. `oci-client` keeps it for the blobs.
    async fn token(&self) -> Result<Option<String>, Failure> {
        let auth = &self.credentials.auth;
        let token = self.client.auth(&self.reference, auth, RegistryOperation::Pull).await;
        token.map_err(|error| self.failure(error))
    }

    async fn request_manifest(
        &self,
        chosen: Option<&Descriptor>,
        token: Option<&str>,
    ) -> Result<Response, Failure> {
        let digest = chosen.map(|chosen| chosen.digest.as_str()).or(self.reference.digest());
        let name = digest.or(self.reference.tag()).unwrap_or("latest");
        let (host, repository) = (self.reference.resolve_registry(), self.reference.repository());
        let url = format!("{}://{host}/v2/{repository}/manifests/{name}", self.protocol);
        let request = self.http.get(url).header(ACCEPT, MANIFESTS.join(", "));
        let request = match (token, &self.credentials.auth) {
            (Some(token), _) => request.bearer_auth(token),
            (None, RegistryAuth::Basic(name, password)) => request.basic_auth(name, Some(password)),
            (None, _) => request,
        };
        request.send().await.map_err(|error| broken(&error))
    }

    /// Converts an error of `oci-client`.
    fn failure(&self, error: OciDistributionError) -> Failure {
        match error {
            OciDistributionError::RequestError(error) => broken(&error),
            OciDistributionError::ServerError { code, .. } => {
                self.refused(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
            }
            OciDistributionError::AuthenticationFailure(_)
            | OciDistributionError::UnauthorizedError { .. } => self.refused(StatusCode::UNAUTHORIZED),
            OciDistributionError::RegistryError { envelope, .. } => {
                use oci_client::errors::OciErrorCode as Code;
                let codes: Vec<_> = envelope.errors.iter().map(|error| &error.code).collect();
                match codes.as_slice() {
                    [Code::Unauthorized | Code::Denied, ..] => self.refused(StatusCode::UNAUTHORIZED),
                    [Code::Toomanyrequests, ..] => self.refused(StatusCode::TOO_MANY_REQUESTS),
                    [Code::BlobUnknown | Code::ManifestUnknown | Code::NameUnknown, ..] => {
                        self.refused(StatusCode::NOT_FOUND)
                    }
                    _ => self.final_failure(&envelope.to_string()),
                }
            }
            error => self.final_failure(&error.to_string()),
        }
    }

    fn final_failure(&self, why: &str) -> Failure {
        let why: String = why.chars().take(300).collect();
        let host = self.reference.resolve_registry();
        Failure::Final(Error::Registry(format!(
            "the registry {host} refused the request: {}",
            why.escape_debug()
        )))
    }

    /// Returns what a status means.
    fn refused(&self, status: StatusCode) -> Failure {
        let (reference, host) = (&self.reference, self.reference.registry());
        let text = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let mut text = format!("the registry {host} refuses access to `{reference}`: ");
                let _ = match (&self.credentials.problem, &self.credentials.auth) {
                    (Some(problem), _) => write!(text, "{problem}"),
                    (None, RegistryAuth::Anonymous) => {
                        write!(text, "check the name, or log in with `docker login {host}`")
                    }
                    (None, _) => write!(text, "check the name and the credentials of `docker login {host}`"),
                };
                text
            }
            StatusCode::NOT_FOUND => {
                format!("the registry {host} does not have `{reference}`: check the name")
            }
            StatusCode::TOO_MANY_REQUESTS => {
                return Failure::Temporary(format!(
                    "it allows no more requests for now: wait, or log in with `docker login {host}`"
                ));
            }
            status if status.is_server_error() => return Failure::Temporary(format!("it answers {status}")),
            status => format!("the registry {host} answers {status} to the request for `{reference}`"),
        };
        Failure::Final(Error::Registry(text))
    }
}

/// Returns whether a registry is on this machine. Only such ones are used without TLS.
fn is_loopback(host: &str) -> bool {
    let name = host.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(name, _)| name);
    let name = name.unwrap_or_else(|| host.split_once(':').map_or(host, |(name, _)| name));
    name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Converts an error of a connection, which includes what caused it.
fn broken(error: &dyn std::error::Error) -> Failure {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let _ = write!(text, ": {inner}");
        cause = inner.source();
    }
    Failure::Temporary(text)
}

fn too_long(descriptor: &Descriptor) -> Error {
    let Descriptor { digest, size, .. } = descriptor;
    Error::refused(format!(
        "the registry sends more than the {size} bytes that the manifest says {digest} has"
    ))
}

fn check(expected: &Digest, content: &[u8]) -> Result<()> {
    let computed = Digest::compute(content);
    if *expected == computed {
        return Ok(());
    }
    Err(Error::refused(format!("the registry sent something else: its digest is {computed}, not {expected}")))
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_loopback_registries_need_no_tls() {
        for host in ["localhost", "localhost:5000", "127.0.0.1:1", "127.1.2.3", "[::1]:5000", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["localhost.example", "127.0.0.1.example:80", "10.0.0.1", "index.docker.io", "[::2]:1", "0.0.0.0"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
