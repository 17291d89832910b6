//! Validates a request of `fetch`.

use std::time::Duration;

use super::BODY;
use crate::error::{Code, Error, Result};
use crate::script::url::Url;
use crate::script::{Exchange, Fetch, Method};

/// The maximum timeout of a request, in milliseconds.
pub(super) const TIMEOUT: u64 = 30_000;
/// The maximum length of a URL in bytes.
const URL: usize = 8 << 10;
/// The maximum number of headers.
const HEADERS: usize = 64;
/// The maximum size of all headers in bytes.
const HEADER_BYTES: usize = 16 << 10;

/// The maximum length of a name that an error repeats, in bytes.
const SHOWN: usize = 64;

/// Headers that describe the connection, which the host sets itself.
const RESERVED: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// A valid request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    /// The headers, with lowercase names.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<String>,
}

impl Request {
    pub(super) fn new(fetch: Fetch) -> Result<Self> {
        let url = parse_url(&fetch.url, None)?;
        let mut headers: Vec<(String, String)> = Vec::with_capacity(fetch.headers.len());
        let bytes: usize = fetch.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if fetch.headers.len() > HEADERS || bytes > HEADER_BYTES {
            let message =
                format!("a request may have {HEADERS} headers with {} KiB in all", HEADER_BYTES >> 10);
            return Err(Error::new(Code::InvalidInput, message));
        }
        for (name, value) in &fetch.headers {
            let header = validate_header(name, value)?;
            if headers.iter().any(|(known, _)| *known == header.0) {
                return Err(invalid_input_error(&format!(
                    "the header `{}` is set twice: its name has no case",
                    header.0
                )));
            }
            headers.push(header);
        }
        if let Some(body) = &fetch.body {
            if matches!(fetch.method, Method::Get | Method::Head) {
                let method = fetch.method.as_str();
                return Err(invalid_input_error(&format!(
                    "a {method} request has no body: use POST, or leave out `body`"
                )));
            }
            if body.len() > BODY {
                let message = format!("the body of a request may have {} MiB: send less at once", BODY >> 20);
                return Err(Error::new(Code::TooLarge, message));
            }
        }
        let mut default = |name: &str, value: &str| {
            if headers.iter().all(|(known, _)| known != name) {
                headers.push((name.to_owned(), value.to_owned()));
            }
        };
        default("accept", "*/*");
        default("user-agent", concat!("koze/", env!("CARGO_PKG_VERSION")));
        if fetch.body.is_some() {
            default("content-type", "text/plain;charset=UTF-8");
        }
        Ok(Request { method: fetch.method, url, headers, body: fetch.body })
    }

    /// Returns the length of the body.
    pub(super) fn body_len(&self) -> usize {
        self.body.as_ref().map_or(0, String::len)
    }

    pub(super) fn host(&self) -> &str {
        &self.url.host
    }

    /// Returns the exchange that the provider performs.
    pub(super) fn to_exchange(&self, time: Duration, longest: usize) -> Exchange {
        let tls = self.url.scheme == "https";
        let mut headers = self.headers.clone();
        headers.push(("accept-encoding".to_owned(), "identity".to_owned()));
        Exchange {
            method: self.method,
            tls,
            host: self.host().to_owned(),
            port: self.url.port_or_default(),
            target: self.url.target.clone(),
            headers,
            body: self.body.clone(),
            time,
            longest,
            credentials: Vec::new(),
        }
    }
}

/// Parses the URL of a request, or that of a redirect.
pub(super) fn parse_url(text: &str, base: Option<&Url>) -> Result<Url> {
    if text.len() > URL {
        return Err(invalid_input_error(&format!("the URL has {} bytes, but may have {URL}", text.len())));
    }
    let url = Url::parse(text, base)?;
    if !matches!(url.scheme.as_str(), "http" | "https") {
        // Do not show the beginning of a longer text: it may be part of a secret, and secrets are only masked as a whole.
        let not = if url.scheme.len() > SHOWN { String::new() } else { format!(", not `{}:`", url.scheme) };
        return Err(invalid_input_error(&format!("`fetch` requests URLs with `https:` or `http:`{not}")));
    }
    if url.has_user {
        let text =
            "the URL contains a user name or a password: send them in the header `authorization` instead";
        return Err(invalid_input_error(text));
    }
    if url.port == Some(0) {
        return Err(invalid_input_error("the port of the URL must be from 1 to 65535"));
    }
    Ok(url)
}

/// Validates a timeout in milliseconds. A longer one than the maximum is shortened to it, as for timers.
pub(super) fn validate_timeout(millis: u64) -> Result<u64> {
    if millis == 0 {
        return Err(invalid_input_error(&format!("`timeout` must be from 1 to {TIMEOUT} ms")));
    }
    Ok(millis.min(TIMEOUT))
}

/// Validates a header. Returns it with a lowercase name.
fn validate_header(name: &str, value: &str) -> Result<(String, String)> {
    let shown = || match name.len() {
        0..=SHOWN => escape_text(name),
        length => format!("a name of {length} bytes"),
    };
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(invalid_input_error(&format!(
            "`{}` is not the name of a header: use letters, digits and `-`",
            shown()
        )));
    }
    let lower = name.to_ascii_lowercase();
    if RESERVED.contains(&lower.as_str()) || lower.starts_with("proxy-") {
        return Err(invalid_input_error(&format!(
            "the header `{}` cannot be set: koze sets what describes the connection",
            shown()
        )));
    }
    // A line break would begin another header, or another request.
    if !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
        return Err(invalid_input_error(&format!(
            "the value of the header `{}` has a line break or another character that is not printable ASCII: encode it",
            shown()
        )));
    }
    Ok((lower, value.trim_matches([' ', '\t']).to_owned()))
}

/// Escapes a text that can be anything, for a message. `str::escape_default` would add a kilobyte to a Worker.
pub(super) fn escape_text(text: &str) -> String {
    format!("{text:?}").trim_matches('"').to_owned()
}

pub(super) fn invalid_input_error(message: &str) -> Error {
    Error::new(Code::InvalidInput, message)
}
