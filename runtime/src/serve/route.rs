//! Routes requests by method and path.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use super::answer::Refusal;
use super::files::Access;

/// A route.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// The definitions of the tools.
    Tools,
    /// A message of the Model Context Protocol.
    Mcp,
    /// A tool call.
    Call {
        /// The session.
        session: String,
        /// The tool.
        tool: String,
    },
    /// A file of a sandbox.
    File {
        /// The session.
        session: String,
        /// The name of the sandbox.
        sandbox: String,
        /// The path below the root of the sandbox.
        path: String,
        /// What to do with it.
        access: Access,
    },
    /// The destruction of a sandbox.
    Destroy {
        /// The session.
        session: String,
        /// The name of the sandbox.
        sandbox: String,
    },
}

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

/// The parameters of a query.
pub(super) type Query = BTreeMap<String, String>;

/// Finds the route of a request. Path segments are decoded one by one, so a session's name can contain a slash.
pub(super) fn find(method: &str, path: &str, query: Option<&str>) -> Result<(Route, Query), Refusal> {
    let parts: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    let query = parameters(query)?;
    if let ["sessions", session, "sandboxes", sandbox, "files", file @ ..] = &parts[..] {
        let access = Access::of(method)?;
        let (session, sandbox, path) = (decoded(session)?, decoded(sandbox)?, decoded(&file.join("/"))?);
        return Ok((Route::File { session, sandbox, path, access }, query));
    }
    let (route, with) = match parts[..] {
        ["tools"] => (Route::Tools, "GET"),
        ["mcp"] => (Route::Mcp, "POST"),
        ["sessions", session, "tools", tool] => {
            (Route::Call { session: decoded(session)?, tool: decoded(tool)? }, "POST")
        }
        ["sessions", session, "sandboxes", sandbox] => {
            (Route::Destroy { session: decoded(session)?, sandbox: decoded(sandbox)? }, "DELETE")
        }
        _ => {
            let message = "not found: `GET /` lists the routes";
            return Err(Refusal::new(404, "not_found", message));
        }
    };
    only(with, method)?;
    Ok((route, query))
}

fn parameters(query: Option<&str>) -> Result<Query, Refusal> {
    let mut parameters = Query::new();
    for pair in query.into_iter().flat_map(|query| query.split('&')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        // One by one: to collect them into a map sorts them first, with code that a Worker needs for nothing else.
        parameters.insert(decoded(name)?, decoded(value)?);
    }
    Ok(parameters)
}

/// Rejects every other method.
pub(super) fn only(wanted: &'static str, method: &str) -> Result<(), Refusal> {
    if method == wanted {
        return Ok(());
    }
    let message = format!("this takes {wanted}");
    Err(Refusal::new(405, "method_not_allowed", message).with_header("allow", wanted))
}

fn decoded(part: &str) -> Result<String, Refusal> {
    let decoded = percent_decode_str(part).decode_utf8();
    decoded.map(Into::into).map_err(|_| Refusal::invalid("a decoded part of the URL is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(method: &str, path: &str) -> Result<Route, u16> {
        find(method, path, None).map(|(route, _)| route).map_err(|refusal| refusal.status)
    }

    #[test]
    fn paths() {
        let call = |session: &str, tool: &str| Ok(Route::Call { session: session.into(), tool: tool.into() });
        assert_eq!(route("GET", "/tools"), Ok(Route::Tools));
        assert_eq!(route("POST", "/mcp"), Ok(Route::Mcp));
        assert_eq!(route("GET", "/mcp"), Err(405), "there is no stream to listen to");
        assert_eq!(route("POST", "/sessions/a/tools/shell"), call("a", "shell"));
        assert_eq!(route("POST", "/sessions/a%2Fb%20%C3%BC/tools/x"), call("a/b ü", "x"));
        assert_eq!(route("POST", "/sessions/a%252Fb/tools/x"), call("a%2Fb", "x"), "decoded once");
        assert_eq!(route("POST", "/sessions//tools/x"), call("", "x"), "which is no session's name");
        let destroy = Route::Destroy { session: "a".into(), sandbox: "b".into() };
        assert_eq!(route("DELETE", "/sessions/a/sandboxes/b"), Ok(destroy));
        assert_eq!(route("POST", "/sessions/a/sandboxes/b"), Err(405));
        let file = |path: &str, access| {
            let (session, sandbox) = ("a".into(), "b".into());
            Ok(Route::File { session, sandbox, path: path.into(), access })
        };
        let below = "/sessions/a/sandboxes/b/files";
        assert_eq!(route("GET", &format!("{below}/x/y%20z")), file("x/y z", Access::Read));
        assert_eq!(route("HEAD", &format!("{below}//x%2Fy/")), file("/x/y/", Access::Describe));
        assert_eq!(route("PUT", below), file("", Access::Write));
        assert_eq!(route("DELETE", below), Err(405));
        for path in [
            "/tools/",
            "//tools",
            "/Tools",
            "/sessions/a/tools",
            "/sessions/a/tools/x/",
            "/sessions/a/sandboxes",
            "/sessions/a/b/tools/x",
        ] {
            assert_eq!(route("GET", path), Err(404), "{path}");
        }
        assert_eq!(route("POST", "/sessions/%FF/tools/x"), Err(400));
        let wrong = find("PUT", "/tools", None).unwrap_err();
        assert_eq!((wrong.status, wrong.header), (405, Some(("allow", "GET"))));
        let wrong = find("GET", "/sessions/a/tools/x", None).unwrap_err();
        assert_eq!((wrong.status, wrong.header), (405, Some(("allow", "POST"))));
    }

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

    #[test]
    fn queries() {
        let (_, query) = find("GET", "/tools", Some("dialect=open%61i&b&c=d=e")).unwrap();
        let pairs: Vec<_> = query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("b", ""), ("c", "d=e"), ("dialect", "openai")]);
    }
}
