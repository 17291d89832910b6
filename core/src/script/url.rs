//! URLs, as a browser parses them.

use crate::error::{Code, Error, Result};

/// The parts of a URL without a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    /// All of it.
    pub(crate) text: String,
    pub(crate) scheme: String,
    /// A lowercase name or an address, in brackets if it is IPv6.
    pub(crate) host: String,
    /// The port, unless it is the usual one of the scheme.
    pub(crate) port: Option<u16>,
    /// The path and the query.
    pub(crate) target: String,
    /// Whether it has a user or a password.
    pub(crate) has_user: bool,
}

impl Url {
    /// Parses a text, relative to another URL if there is one.
    pub(crate) fn parse(text: &str, base: Option<&Url>) -> Result<Self> {
        let mut url = parser::parse(text, base.map(|base| base.text.as_str())).map_err(|why| {
            let message =
                format!("the URL is not valid: {why}. Write an absolute one: `https://example.com/path`");
            Error::new(Code::InvalidInput, message)
        })?;
        url.text.truncate(url.text.find('#').unwrap_or(url.text.len()));
        Ok(url)
    }

    /// Returns the port, which may be the usual one of the scheme.
    pub(crate) fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(if self.scheme == "https" { 443 } else { 80 })
    }
}

/// Returns a text as the parser encodes it in a path and in a query. It may leave something out.
pub(crate) fn encode_text(text: &str) -> [String; 2] {
    parser::encode_text(text)
}

#[cfg(not(target_arch = "wasm32"))]
mod parser {
    use url::ParseError;

    use super::Url;

    pub(super) fn parse(text: &str, base: Option<&str>) -> Result<Url, String> {
        let base = base.map(url::Url::parse).transpose().map_err(|error| error.to_string())?;
        let url = url::Url::options().base_url(base.as_ref()).parse(text).map_err(|error| match error {
            ParseError::RelativeUrlWithoutBase => "it has no scheme".to_owned(),
            error => error.to_string(),
        })?;
        let query = url.query().filter(|query| !query.is_empty());
        Ok(Url {
            scheme: url.scheme().to_owned(),
            host: url.host_str().unwrap_or_default().to_owned(),
            port: url.port(),
            target: query.map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path())),
            has_user: !url.username().is_empty() || url.password().is_some(),
            text: url.into(),
        })
    }

    pub(super) fn encode_text(text: &str) -> [String; 2] {
        let Ok(mut url) = url::Url::parse("https://a/") else { return Default::default() };
        url.set_path(text);
        url.set_query(Some(text));
        [url.path().to_owned(), url.query().unwrap_or_default().to_owned()]
    }
}

/// JavaScript's own parser: the tables of Unicode in the crate would be a third of what scripts add to the upload of a Worker.
#[cfg(target_arch = "wasm32")]
mod parser {
    use super::Url;

    pub(super) fn parse(text: &str, base: Option<&str>) -> Result<Url, String> {
        let parsed = match base {
            Some(base) => web_sys::Url::new_with_base(text, base),
            None => web_sys::Url::new(text),
        };
        let url =
            parsed.map_err(|_| if has_scheme(text) { "it cannot be parsed" } else { "it has no scheme" })?;
        Ok(Url {
            scheme: url.protocol().trim_end_matches(':').to_owned(),
            host: url.hostname(),
            port: url.port().parse().ok(),
            target: url.pathname() + &url.search(),
            has_user: !url.username().is_empty() || !url.password().is_empty(),
            text: url.href(),
        })
    }

    fn has_scheme(text: &str) -> bool {
        let scheme = text.trim_start().split_once(':').map_or("", |(scheme, _)| scheme);
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    }

    pub(super) fn encode_text(text: &str) -> [String; 2] {
        let Ok(url) = web_sys::Url::new("https://a/") else { return Default::default() };
        url.set_pathname(text);
        url.set_search(text);
        [url.pathname(), url.search().trim_start_matches('?').to_owned()]
    }
}
