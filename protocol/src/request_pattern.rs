//! The grammar of an entry of an egress policy: `GET api.example.com:8443/v1/**`.

/// The longest method.
const MAX_METHOD: usize = 16;
/// The longest path pattern.
const MAX_PATH: usize = 512;

/// An entry of an egress policy, split into its parts. Its host and port are not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestPattern<'a> {
    /// The only method that it matches.
    pub method: Option<&'a str>,
    /// The host, with its port.
    pub host: &'a str,
    /// The pattern of the paths that it matches. `None` if it matches all paths.
    pub path: Option<&'a str>,
}

impl<'a> RequestPattern<'a> {
    /// Splits an entry. Returns `None` if its method or its path pattern is invalid.
    pub fn split(text: &'a str) -> Option<Self> {
        let (method, rest) = text.split_once(' ').map_or((None, text), |(method, rest)| (Some(method), rest));
        let (host, path) = rest.find('/').map_or((rest, None), |at| (&rest[..at], Some(&rest[at..])));
        let is_good = method.is_none_or(is_method) && path.is_none_or(is_path);
        // `/**` matches every path, so requests need not be read for it.
        let path = path.filter(|path| *path != "/**");
        is_good.then_some(RequestPattern { method, host, path })
    }

    /// Returns whether it matches only some of the requests to its host.
    pub fn is_partial(&self) -> bool {
        self.method.is_some() || self.path.is_some()
    }
}

/// A tunnel is not a request to a host.
fn is_method(text: &str) -> bool {
    (1..=MAX_METHOD).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_uppercase())
        && text != "CONNECT"
}

/// Paths in a pattern are decoded and normalized, so that they can be compared with those of requests.
fn is_path(text: &str) -> bool {
    let is_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
    let inner = text.strip_prefix('/').unwrap_or_default();
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let is_segment = |part: &str| !matches!(part, "" | "." | "..") && (part == "**" || !part.contains("**"));
    text.len() <= MAX_PATH && text.bytes().all(is_byte) && (text == "/" || inner.split('/').all(is_segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_split() {
        let all = |text| {
            let RequestPattern { method, host, path } = RequestPattern::split(text).unwrap();
            (method, host, path)
        };
        assert_eq!(all("a.example"), (None, "a.example", None));
        assert_eq!(all("GET a.example/**"), (Some("GET"), "a.example", None));
        assert_eq!(all("*.a.example:81/v1/*/x-*"), (None, "*.a.example:81", Some("/v1/*/x-*")));
        assert_eq!(all("POST a.example/v1/"), (Some("POST"), "a.example", Some("/v1/")));
        for text in [
            "get a.example",
            " a.example",
            "CONNECT a.example",
            "GET  a.example//",
            "a.example//",
            "a.example/a//b",
            "a.example/../b",
            "a.example/a%20b",
            "a.example/a?b",
            "a.example/a**",
            "a.example/a\\b",
            "a.example/ä",
            "a.example/a b",
        ] {
            assert_eq!(RequestPattern::split(text), None, "{text}");
        }
        assert!(!RequestPattern::split("a.example/**").unwrap().is_partial());
    }
}
