//! Paths of requests, and the patterns that they are compared with.

use percent_encoding::percent_decode_str;

/// A path pattern: `*` matches within a segment, and the segment `**` any number of segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathPattern(Vec<String>);

impl PathPattern {
    /// Creates a pattern from a path that [`RequestPattern`](koze_protocol::RequestPattern) has accepted.
    pub(super) fn new(text: &str) -> Self {
        PathPattern(segments(text).map(str::to_owned).collect())
    }

    /// Returns whether it matches a path of [`normalize_path`].
    ///
    /// The time is proportional to the number of segments of both, because the path is not trusted.
    pub(super) fn matches(&self, path: &str) -> bool {
        let path: Vec<&str> = segments(path).collect();
        // Whether the pattern so far matches the first segments of the path, by their number.
        let mut reached = vec![false; path.len() + 1];
        reached[0] = true;
        for part in &self.0 {
            let mut next = vec![false; path.len() + 1];
            if part == "**" {
                let first = reached.iter().position(|is_reached| *is_reached);
                next.iter_mut()
                    .skip(first.unwrap_or(path.len() + 1))
                    .for_each(|is_reached| *is_reached = true);
            } else {
                for (at, segment) in path.iter().enumerate() {
                    next[at + 1] = reached[at] && matches_segment(part, segment);
                }
            }
            reached = next;
        }
        reached[path.len()]
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('/').unwrap_or(path).split('/')
}

/// Matches a segment with a pattern in which `*` stands for any text.
fn matches_segment(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Returns the decoded path of a request's target. Returns `None` if servers may read it as another path: with `.` or `..`, with an
/// empty segment, an encoded slash or percent sign, a backslash or a control character.
pub(super) fn normalize_path(target: &str) -> Option<String> {
    let path = target.split(['?', '#']).next()?;
    let decoded = percent_decode_str(path).decode_utf8().ok()?.into_owned();
    let inner = decoded.strip_prefix('/')?;
    let has_odd = decoded.chars().any(|c| c.is_control() || matches!(c, '\\' | '%' | ';'));
    let slashes = |text: &str| text.bytes().filter(|byte| *byte == b'/').count();
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let is_plain = decoded == "/" || inner.split('/').all(|part| !matches!(part, "" | "." | ".."));
    (!has_odd && is_plain && slashes(path) == slashes(&decoded)).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_paths() {
        for (pattern, path, expected) in [
            ("/", "/", true),
            ("/", "/a", false),
            ("/v1/*", "/v1/a", true),
            ("/v1/*", "/v1/", true),
            ("/v1/*", "/v1/a/b", false),
            ("/v1/**", "/v1/a/b", true),
            ("/v1/**", "/v1", true),
            ("/v1/**", "/v10", false),
            ("/**/info/refs", "/a/b.git/info/refs", true),
            ("/**/info/refs", "/info/refs", true),
            ("/**/info/refs", "/info/refs/x", false),
            ("/a-*-c*/x", "/a-b-cd/x", true),
            ("/a-*-c*/x", "/a-c/x", false),
            ("/a*a", "/a", false),
            ("/V1", "/v1", false),
        ] {
            assert_eq!(PathPattern::new(pattern).matches(path), expected, "{pattern} {path}");
        }
        // Linear in the length of the path.
        let long = "/a".repeat(30_000);
        assert!(!PathPattern::new("/**/a/**/a/**/a/**/b").matches(&long));
    }

    #[test]
    fn ambiguous_paths_are_rejected() {
        assert_eq!(normalize_path("/a%20b/%7Ec?x=/../y").as_deref(), Some("/a b/~c"));
        assert_eq!(normalize_path("/a/").as_deref(), Some("/a/"));
        for target in [
            "",
            "*",
            "a",
            "//a",
            "/a//b",
            "/a/../b",
            "/a/./b",
            "/a/..",
            "/a/%2e%2e/b",
            "/a/%2E./b",
            "/a%2fb",
            "/a%5cb",
            "/a\\b",
            "/a%252e",
            "/a%00",
            "/a%0d%0ab",
            "/a;b/..",
            "/%ff",
            "/a/..;/b",
        ] {
            assert_eq!(normalize_path(target), None, "{target}");
        }
    }
}
