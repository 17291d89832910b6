//! Requests, retries and errors.

use std::thread::sleep;
use std::time::Duration;

use koze_core::http::{ErrorBody, SessionList};
use koze_core::{Code, Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Method, Request, Response, Uri};
use ureq::{Agent, AsSendBody, Body};

use crate::Session;

/// How long it may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The pauses before a request that changes nothing is sent again.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];
/// The longest JSON of a response, in bytes.
const MAX_JSON: u64 = 256 << 20;

/// A client of a server. A clone shares its connections.
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
    /// The URL of the server, without a slash at its end.
    base: String,
    /// The header `Authorization`.
    authorization: String,
}

impl Client {
    /// Creates a client for the server at a URL. The token is the Worker's `KOZE_TOKEN`, or one of its `KOZE_TOKENS`.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the URL is not one of HTTP, if it would send the token unencrypted to another machine, or if
    /// the token cannot be sent.
    pub fn new(url: &str, token: &str) -> Result<Self> {
        Self::with_name(url, token, concat!("koze-client/", env!("CARGO_PKG_VERSION")))
    }

    /// Creates a client with a name, which the journal of tool calls records.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_name(url: &str, token: &str, name: &str) -> Result<Self> {
        check_url(url)?;
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = "the token must be one or more letters, digits and symbols, without spaces";
            return Err(Error::new(Code::InvalidInput, message));
        }
        let builder = Agent::config_builder();
        // Without encryption, the server is on this machine: a proxy, which may be elsewhere, must not get the token.
        let builder = if url.starts_with("https://") { builder } else { builder.proxy(None) };
        let agent = builder
            .http_status_as_error(false)
            // The token is for this server only.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(name)
            .build();
        Ok(Client {
            agent: agent.into(),
            base: url.trim_end_matches('/').to_owned(),
            authorization: format!("Bearer {token}"),
        })
    }

    /// Returns the session with a name.
    pub fn session(&self, name: impl Into<String>) -> Session {
        Session::new(self.clone(), name.into())
    }

    /// Lists the sessions that have sandboxes or calls.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if the server has no list of its sessions, as a Worker, and the errors of the request.
    pub fn sessions(&self) -> Result<SessionList> {
        self.get_json("/sessions")
    }

    /// Sends a request and returns the response. It is not retried.
    pub(crate) fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsSendBody,
    ) -> Result<Response<Body>> {
        self.send_within(None, method, path, headers, body)
    }

    /// Sends a request, and waits no longer than a time for the whole response.
    pub(crate) fn send_within(
        &self,
        time: Option<Duration>,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsSendBody,
    ) -> Result<Response<Body>> {
        let response = self.run(time, method, path, headers, body)?;
        if response.status().is_success() || response.status().as_u16() == 304 {
            return Ok(response);
        }
        Err(response_error(response))
    }

    /// Sends a request, and returns any response.
    pub(crate) fn run(
        &self,
        time: Option<Duration>,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsSendBody,
    ) -> Result<Response<Body>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("authorization", &self.authorization);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).map_err(|error| {
            Error::new(Code::InvalidInput, format!("the request cannot be sent: {error}"))
        })?;
        let request = self.agent.configure_request(request).timeout_global(time).build();
        self.agent.run(request).map_err(|error| self.connection_error(&error))
    }

    /// Sends a request that changes nothing, and again if the server cannot be reached or is overloaded.
    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Result<Response<Body>> {
        for pause in PAUSES {
            match self.send(Method::GET, path, headers, ()) {
                Err(error) if error.code == Code::Unavailable => sleep(pause),
                done => return done,
            }
        }
        self.send(Method::GET, path, headers, ())
    }

    /// Reads JSON.
    pub(crate) fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        parse(self.get(path, &[])?)
    }

    /// Sends JSON and reads JSON.
    pub(crate) fn post_json<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        self.post(path, &to_json(body)?)
    }

    /// Sends bytes and reads JSON.
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, body: &[u8]) -> Result<T> {
        parse(self.send(Method::POST, path, &[("content-type", "application/json")], body)?)
    }

    fn connection_error(&self, error: &ureq::Error) -> Error {
        Error::new(Code::Unavailable, format!("{} cannot be reached: {error}", self.base))
    }
}

/// Encodes the body of a request.
pub(crate) fn to_json(body: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(body).map_err(|error| {
        Error::new(Code::InvalidInput, format!("the request cannot be written as JSON: {error}"))
    })
}

/// Checks that a token may be sent to a URL.
fn check_url(url: &str) -> Result<()> {
    let wrong = |why: String| Err(Error::new(Code::InvalidInput, why));
    let parsed: Option<Uri> = url.parse().ok();
    let Some((uri, host)) = parsed.as_ref().and_then(|uri| Some((uri, uri.host()?))) else {
        return wrong(format!("`{url}` is not a URL such as https://agents.example.workers.dev"));
    };
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) || uri.query().is_some() {
        return wrong(format!("`{url}` must have neither a user nor a query"));
    }
    let is_loopback = host == "localhost"
        || host.ends_with(".localhost")
        || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if is_loopback => Ok(()),
        Some("http") => wrong(format!(
            "`{url}` would send the token unencrypted: use https, or http on this machine only"
        )),
        _ => wrong(format!("`{url}` must begin with https:// or http://")),
    }
}

/// Parses a response.
fn parse<T: DeserializeOwned>(response: Response<Body>) -> Result<T> {
    let text = read_text(response)?;
    serde_json::from_str(&text).map_err(|error| {
        let message = format!("the server's response is not what koze sends: {error}. Is it a koze Worker, and as new as this client?");
        Error::new(Code::Internal, message).with_source(error)
    })
}

/// Reads the body of a response as text.
pub(crate) fn read_text(mut response: Response<Body>) -> Result<String> {
    response.body_mut().with_config().limit(MAX_JSON).read_to_string().map_err(|error| cut_off(&error))
}

/// Returns the error for a response that ended early.
pub(crate) fn cut_off(error: &impl std::fmt::Display) -> Error {
    Error::new(Code::Unavailable, format!("the response was cut off: {error}"))
}

/// Returns the error of a response.
fn response_error(response: Response<Body>) -> Error {
    let status = response.status();
    if status.is_redirection() {
        let target = response.headers().get("location").and_then(|target| target.to_str().ok());
        let message = format!("the server redirects to {}: use that URL", target.unwrap_or("another place"));
        return Error::new(Code::InvalidInput, message);
    }
    let text = read_text(response).unwrap_or_default();
    let code = match status.as_u16() {
        404 => Code::NotFound,
        401 | 403 => Code::PermissionDenied,
        413 => Code::TooLarge,
        501 => Code::Unsupported,
        502 | 503 | 429 => Code::Unavailable,
        504 => Code::Timeout,
        400..=499 => Code::InvalidInput,
        _ => Code::Internal,
    };
    match serde_json::from_str::<ErrorBody>(&text) {
        Ok(ErrorBody { error }) => {
            // A code of a newer server is not known.
            let told = serde_json::from_value(error.code.into());
            Error::new(told.unwrap_or(code), error.message)
        }
        Err(_) => Error::new(code, format!("the server answered {status}, which is not an answer of koze")),
    }
}

/// Encodes a part of a path.
pub(crate) fn encode(part: &str) -> String {
    percent_encoding::utf8_percent_encode(part, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_sent_encrypted_or_to_this_machine() {
        for url in [
            "https://a.example",
            "https://a.example/below/",
            "http://127.0.0.1:8787",
            "http://localhost:8787/",
            "http://x.localhost",
            "http://[::1]:80",
        ] {
            check_url(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        }
        for url in [
            "",
            "a.example",
            "/x",
            "ftp://a.example",
            "http://a.example",
            "http://10.0.0.1",
            "http://localhost.example",
            "https://u:p@a.example",
            "https://a.example/?x",
            "https://",
        ] {
            assert_eq!(check_url(url).unwrap_err().code, Code::InvalidInput, "{url}");
        }
    }

    #[test]
    fn tokens_are_one_word() {
        for token in ["", "a b", "ä", "a\n"] {
            assert!(Client::new("https://a.example", token).is_err(), "{token:?}");
        }
    }

    #[test]
    fn parts_of_paths_are_encoded() {
        assert_eq!(encode("a/b c%ü"), "a%2Fb%20c%25%C3%BC");
    }
}
