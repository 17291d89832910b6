//! The request that follows a redirect, as in a browser, but with less that another server learns.

use super::request::{Request, parse_url};
use crate::error::{Code, Error, Result};
use crate::script::url::Url;
use crate::script::{Exchanged, Method};

/// The headers that a redirect to another origin keeps. Any other may hold a secret: APIs use many names for their keys.
const KEPT: &[&str] =
    &["accept", "accept-language", "content-language", "content-type", "range", "user-agent"];

/// What follows a response.
#[derive(Debug)]
pub(super) enum Next {
    /// Another request.
    Follow(Request),
    /// Nothing: it is the response of this URL.
    Done(String),
}

/// Returns what follows the response to a request.
///
/// # Errors
/// If the server redirects to a URL that may not be followed.
pub(super) fn next_step(request: Request, response: &Exchanged) -> Result<Next> {
    let Some(location) = response.location() else { return Ok(Next::Done(request.url.text)) };
    let refused = |code, why: String| {
        Error::new(code, format!("{} redirects, which is not followed: {why}", request.host()))
    };
    let url = parse_url(location, Some(&request.url)).map_err(|error| refused(error.code, error.message))?;
    if request.url.scheme == "https" && url.scheme == "http" {
        let text = "it leads from `https:` to `http:`, where others can read it; request that URL itself if you mean it";
        return Err(refused(Code::PermissionDenied, text.to_owned()));
    }
    let Request { mut method, mut headers, mut body, url: from } = request;
    let is_get = match response.status {
        301 | 302 => method == Method::Post,
        303 => method != Method::Head,
        _ => false,
    };
    if is_get {
        (method, body) = (Method::Get, None);
        headers.retain(|(name, _)| !name.starts_with("content-"));
    }
    if !is_same(&from, &url) {
        if body.is_some() {
            let text = format!(
                "{} redirects a request with a body to another origin, which is not followed: send it to {} itself if you mean it",
                from.host, url.host
            );
            return Err(Error::new(Code::PermissionDenied, text));
        }
        headers.retain(|(name, _)| KEPT.contains(&name.as_str()));
    }
    Ok(Next::Follow(Request { method, url, headers, body }))
}

/// Returns whether two URLs have the same origin. The usual ports of a host count as one if the redirect leads to HTTPS.
fn is_same(from: &Url, to: &Url) -> bool {
    let upgraded = from.scheme == "http" && to.scheme == "https" && from.port.is_none() && to.port.is_none();
    from.host == to.host && (upgraded || (from.scheme == to.scheme && from.port == to.port))
}
