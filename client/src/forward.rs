//! Requests of others, which a program sends to the server in their place.

use koze_core::{Code, Error, Result};
use ureq::BodyReader;
use ureq::http::Method;

use crate::Client;

/// A response, whose body is read as it arrives.
pub struct Forwarded {
    /// The status. It is no redirect.
    pub status: u16,
    /// The headers that are text.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: BodyReader<'static>,
}

impl Client {
    /// Sends a request with the token of this client, once. `path` is encoded, and may have a query. An error of the server is a
    /// response as others are.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the path has parts that servers resolve, such as `..`, or if the method or a header is not
    /// valid; [`Code::Unavailable`] if the server cannot be reached, refuses the token, or redirects.
    pub fn forward(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Forwarded> {
        check_path(path)?;
        let method = Method::from_bytes(method.as_bytes())
            .map_err(|error| Error::new(Code::InvalidInput, format!("the method is not valid: {error}")))?;
        // Ranges and lengths are those of the content.
        let headers: Vec<_> = headers.iter().copied().chain([("accept-encoding", "identity")]).collect();
        let headers = headers.as_slice();
        // A request without a body must not say that it has one.
        let response = if body.is_empty() && matches!(method, Method::GET | Method::HEAD) {
            self.run(None, method, path, headers, ())?
        } else {
            self.run(None, method, path, headers, body)?
        };
        let status = response.status();
        if status.as_u16() == 401 {
            let message = "the server refuses the token: set KOZE_TOKEN to the one of the server";
            return Err(Error::new(Code::Unavailable, message));
        }
        if status.is_redirection() && status.as_u16() != 304 {
            let message = "the server redirects to another place, which gets no token: use the URL of the server itself";
            return Err(Error::new(Code::Unavailable, message));
        }
        let text = |(name, value): (&ureq::http::HeaderName, &ureq::http::HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        let headers = response.headers().iter().filter_map(text).collect();
        let body = response.into_body().into_with_config().limit(u64::MAX).reader();
        Ok(Forwarded { status: status.as_u16(), headers, body })
    }
}

/// Refuses the parts of paths that servers and proxies resolve: the path would be another one.
fn check_path(path: &str) -> Result<()> {
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    let is_resolved =
        |part: &str| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    if !path.starts_with('/') || path.contains(['\\', '#']) || path.split('/').any(is_resolved) {
        return Err(Error::new(Code::InvalidInput, format!("the path `{path}` cannot be sent to a server")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_servers_resolve_are_refused() {
        for path in ["/sessions", "/a/b%20c/..d?x=/../", "/a//b", "/a/%2e%2e%2e"] {
            assert!(check_path(path).is_ok(), "{path}");
        }
        for path in ["", "sessions", "/a/..", "/a/../b", "/a/%2E./b", "/.%2e", "/a/./b", "/a\\b", "/a#b"] {
            assert!(check_path(path).is_err(), "{path}");
        }
    }
}
