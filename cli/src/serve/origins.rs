//! CORS: the web pages that may call the server.

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Uri};

/// The methods that a page may use.
const METHODS: HeaderValue = HeaderValue::from_static("DELETE, GET, HEAD, POST, PUT");
const SENT: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, koze-session, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id",
);
const READ: HeaderValue = HeaderValue::from_static("mcp-session-id, www-authenticate");

/// The allowed origins, as browsers write them.
#[derive(Debug, Clone)]
pub(super) struct Origins(Vec<HeaderValue>);

impl Origins {
    /// Parses the configured origins.
    ///
    /// # Errors
    /// Returns a message that names the first invalid origin. No browser would ever send it.
    pub(super) fn new(named: &[String]) -> Result<Self, String> {
        let origins = named.iter().map(|name| {
            normalize_origin(name).ok_or_else(|| {
                format!("--allow-origin: `{name}` is not an origin such as http://localhost:6274")
            })
        });
        origins.collect::<Result<_, _>>().map(Origins)
    }

    /// Returns whether the request has no `Origin` header or an allowed one.
    pub(super) fn allow(&self, headers: &HeaderMap) -> bool {
        headers.get_all(header::ORIGIN).iter().all(|origin| self.0.contains(origin))
    }

    /// Returns whether the request is a preflight request, which carries no token.
    pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
        request.method() == Method::OPTIONS
            && request.headers().contains_key(header::ORIGIN)
            && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
    }

    /// Adds the CORS response headers for an allowed origin.
    pub(super) fn add_headers(origin: HeaderValue, headers: &mut HeaderMap) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, SENT);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, READ);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
    }
}

/// Normalizes an origin as browsers do: lowercase, without the scheme's default port.
fn normalize_origin(name: &str) -> Option<HeaderValue> {
    let uri: Uri = name.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    let usual = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let bare = uri.path() == "/" && uri.query().is_none() && !name.contains(['@', '*']);
    let behind = authority.as_str().strip_prefix(authority.host())?;
    let port = if behind.is_empty() { None } else { Some(authority.port_u16()?) };
    if !bare || !name.is_ascii() {
        return None;
    }
    let host = authority.host().to_ascii_lowercase();
    let written = match port.filter(|port| *port != usual) {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    };
    written.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_normalized() {
        let written = |name| normalize_origin(name).map(|origin| origin.to_str().unwrap().to_owned());
        for (name, expected) in [
            ("http://localhost:6274", "http://localhost:6274"),
            ("http://localhost:6274/", "http://localhost:6274"),
            ("HTTPS://Example.COM:443", "https://example.com"),
            ("http://[::1]:80", "http://[::1]"),
            ("http://a:443", "http://a:443"),
        ] {
            assert_eq!(written(name).as_deref(), Some(expected), "{name}");
        }
    }

    #[test]
    fn invalid_origins_are_rejected() {
        for name in [
            "",
            "*",
            "null",
            "localhost",
            "localhost:6274",
            "http://",
            "http://a/path",
            "http://a?q",
            "http://a:*",
            "http://*.a",
            "http://u@a",
            "http://a:99999",
            "http://a:",
            "file:///",
            "ftp://a",
            "http://a b",
            "http://ä",
        ] {
            assert_eq!(normalize_origin(name), None, "{name}");
        }
    }
}
