//! The parts of a URL.

/// The parts of a URL. The platform has normalized it; it has a host and a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url<'a> {
    /// `https`.
    pub(super) scheme: &'a str,
    /// The host, with the port unless it is the scheme's default.
    pub(super) host: &'a str,
    /// The path, with its leading slash.
    pub(super) path: &'a str,
    /// The query.
    pub(super) query: Option<&'a str>,
}

impl<'a> Url<'a> {
    /// Splits a URL.
    pub(super) fn split(url: &'a str) -> Self {
        let url = url.split_once('#').map_or(url, |(url, _)| url);
        let (url, query) = url.split_once('?').map_or((url, None), |(url, query)| (url, Some(query)));
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        Url { scheme, host, path: if path.is_empty() { "/" } else { path }, query }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let url = |scheme, host, path, query| Url { scheme, host, path, query };
        for (text, parts) in [
            ("https://a.example/", url("https", "a.example", "/", None)),
            ("http://a.example:8787/b/c?d=/?e#/f", url("http", "a.example:8787", "/b/c", Some("d=/?e"))),
            ("https://u:p@a.example/@b#c?d", url("https", "a.example", "/@b", None)),
            ("http://[::1]:80/x", url("http", "[::1]:80", "/x", None)),
        ] {
            assert_eq!(Url::split(text), parts);
        }
    }
}
