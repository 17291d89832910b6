//! Routes requests by method and path, for every host.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use super::{Refusal, is_metadata_request};
use crate::error::{Code, Error};

/// A route.
#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    /// The definitions of the tools.
    Tools,
    /// The description of the routes.
    OpenApi,
    /// A message of the Model Context Protocol. Its methods depend on the host.
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
    /// The sessions of this machine.
    Sessions,
    /// The hosts that a session reached and was refused, on this machine.
    Egress {
        /// The session.
        session: String,
    },
    /// What the sandboxes of a session use, on this machine.
    Usage {
        /// The session.
        session: String,
    },
    /// The journal of tool calls.
    Log {
        /// The session.
        session: String,
    },
    /// A terminal in a sandbox, as a WebSocket.
    Terminal {
        /// The session.
        session: String,
        /// The name of the sandbox.
        sandbox: String,
    },
    /// The sandboxes and their processes: see [the module](super).
    Sandboxes {
        /// The session.
        session: String,
        /// The parts of the path after `sandboxes`.
        path: Vec<String>,
    },
    /// The snapshots of workspaces: see [the module](super).
    Snapshots {
        /// The session.
        session: String,
        /// The parts of the path after `snapshots`.
        path: Vec<String>,
    },
}

/// The access that a request for a file needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// `GET`.
    Read,
    /// `HEAD`: as `GET`, without the body.
    Describe,
    /// `PUT`.
    Write,
}

impl Access {
    /// Returns the access of a method.
    fn of(method: &str) -> Result<Self, Refusal> {
        match method {
            "GET" => Ok(Access::Read),
            "HEAD" => Ok(Access::Describe),
            "PUT" => Ok(Access::Write),
            _ => Err(Refusal::Method("GET, HEAD, PUT, DELETE")),
        }
    }
}

/// The parameters of a query.
pub type Query = BTreeMap<String, String>;

/// Finds the route of a request. Path segments are decoded one by one, so a session's name can contain a slash.
///
/// # Errors
/// [`Refusal`], as the response.
pub fn find_route(method: &str, path: &str, query: Option<&str>) -> Result<(Route, Query), Refusal> {
    let parts: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    let query = parameters(query)?;
    if let ["sessions", session, "sandboxes", sandbox, "files", file @ ..] = &parts[..] {
        if is_metadata_request(method, query.keys().map(String::as_str)) {
            let path = [&[*sandbox, "files"], file].concat();
            return Ok((sandboxes(session, &path)?, query));
        }
        let access = Access::of(method)?;
        let (session, sandbox, path) = (decoded(session)?, decoded(sandbox)?, decoded(&file.join("/"))?);
        return Ok((Route::File { session, sandbox, path, access }, query));
    }
    if let ["sessions", session, "sandboxes", sandbox, "terminal"] = parts[..] {
        check_method("GET", method)?;
        return Ok((Route::Terminal { session: decoded(session)?, sandbox: decoded(sandbox)? }, query));
    }
    if let ["sessions", session, "sandboxes", path @ ..] = &parts[..] {
        return Ok((sandboxes(session, path)?, query));
    }
    if let ["sessions", session, "snapshots", path @ ..] = &parts[..] {
        return Ok((Route::Snapshots { session: decoded(session)?, path: decoded_parts(path)? }, query));
    }
    let (route, with) = match parts[..] {
        ["tools"] => (Route::Tools, "GET"),
        ["openapi.json"] => (Route::OpenApi, "GET"),
        ["sessions"] => (Route::Sessions, "GET"),
        ["mcp"] => return Ok((Route::Mcp, query)),
        ["sessions", session, "tools", tool] => {
            (Route::Call { session: decoded(session)?, tool: decoded(tool)? }, "POST")
        }
        ["sessions", session, "egress"] => (Route::Egress { session: decoded(session)? }, "GET"),
        ["sessions", session, "usage"] => (Route::Usage { session: decoded(session)? }, "GET"),
        ["sessions", session, "log"] => (Route::Log { session: decoded(session)? }, "GET"),
        _ => return Err(Refusal::NoRoute),
    };
    check_method(with, method)?;
    Ok((route, query))
}

fn sandboxes(session: &str, path: &[&str]) -> Result<Route, Refusal> {
    Ok(Route::Sandboxes { session: decoded(session)?, path: decoded_parts(path)? })
}

fn decoded_parts(parts: &[&str]) -> Result<Vec<String>, Refusal> {
    parts.iter().map(|part| decoded(part)).collect()
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
///
/// # Errors
/// [`Refusal::Method`].
pub fn check_method(wanted: &'static str, method: &str) -> Result<(), Refusal> {
    if method == wanted { Ok(()) } else { Err(Refusal::Method(wanted)) }
}

fn decoded(part: &str) -> Result<String, Refusal> {
    let decoded = percent_decode_str(part).decode_utf8();
    decoded.map(Into::into).map_err(|_| {
        Refusal::Failed(Error::new(Code::InvalidInput, "a decoded part of the URL is not valid UTF-8"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(method: &str, path: &str) -> Result<Route, u16> {
        find_route(method, path, None).map(|(route, _)| route).map_err(|refusal| refusal.into_parts().status)
    }

    #[test]
    fn paths() {
        let call = |session: &str, tool: &str| Ok(Route::Call { session: session.into(), tool: tool.into() });
        assert_eq!(route("GET", "/tools"), Ok(Route::Tools));
        assert_eq!(route("GET", "/openapi.json"), Ok(Route::OpenApi));
        assert_eq!(route("POST", "/mcp"), Ok(Route::Mcp));
        assert_eq!(route("GET", "/sessions/a%2Fb/log"), Ok(Route::Log { session: "a/b".into() }));
        assert_eq!(route("POST", "/sessions/a/log"), Err(405));
        assert_eq!(route("GET", "/sessions"), Ok(Route::Sessions));
        assert_eq!(route("POST", "/sessions"), Err(405));
        assert_eq!(route("GET", "/sessions/a%2Fb/egress"), Ok(Route::Egress { session: "a/b".into() }));
        let terminal = Route::Terminal { session: "a/b".into(), sandbox: "c d".into() };
        assert_eq!(route("GET", "/sessions/a%2Fb/sandboxes/c%20d/terminal"), Ok(terminal));
        assert_eq!(route("POST", "/sessions/a/sandboxes/b/terminal"), Err(405));
        assert_eq!(route("GET", "/sessions/a%2Fb/usage"), Ok(Route::Usage { session: "a/b".into() }));
        assert_eq!(route("GET", "/mcp"), Ok(Route::Mcp), "some hosts have a stream to listen to");
        assert_eq!(route("POST", "/sessions/a/tools/shell"), call("a", "shell"));
        assert_eq!(route("POST", "/sessions/a%2Fb%20%C3%BC/tools/x"), call("a/b ü", "x"));
        assert_eq!(route("POST", "/sessions/a%252Fb/tools/x"), call("a%2Fb", "x"), "decoded once");
        assert_eq!(route("POST", "/sessions//tools/x"), call("", "x"), "which is no session's name");
        let sandboxes = |path: &[&str]| {
            let path = path.iter().map(|part| (*part).to_owned()).collect();
            Ok(Route::Sandboxes { session: "a/b".into(), path })
        };
        assert_eq!(route("GET", "/sessions/a%2Fb/sandboxes"), sandboxes(&[]));
        assert_eq!(route("DELETE", "/sessions/a%2Fb/sandboxes/c%20d"), sandboxes(&["c d"]));
        assert_eq!(
            route("PUT", "/sessions/a%2Fb/sandboxes/c/processes/"),
            sandboxes(&["c", "processes", ""])
        );
        let snapshots = |path: &[&str]| {
            let path = path.iter().map(|part| (*part).to_owned()).collect();
            Ok(Route::Snapshots { session: "a/b".into(), path })
        };
        assert_eq!(route("GET", "/sessions/a%2Fb/snapshots"), snapshots(&[]));
        assert_eq!(
            route("POST", "/sessions/a%2Fb/snapshots/snap_1/restore"),
            snapshots(&["snap_1", "restore"])
        );
        let file = |path: &str, access| {
            let (session, sandbox) = ("a".into(), "b".into());
            Ok(Route::File { session, sandbox, path: path.into(), access })
        };
        let below = "/sessions/a/sandboxes/b/files";
        assert_eq!(route("GET", &format!("{below}/x/y%20z")), file("x/y z", Access::Read));
        assert_eq!(route("HEAD", &format!("{below}//x%2Fy/")), file("/x/y/", Access::Describe));
        assert_eq!(route("PUT", below), file("", Access::Write));
        assert_eq!(route("POST", below), Err(405));
        let path = ["b", "files", "x", "y z"].map(str::to_owned).to_vec();
        let removed = Route::Sandboxes { session: "a".into(), path };
        assert_eq!(route("DELETE", &format!("{below}/x/y%20z")), Ok(removed));
        let (listed, _) = find_route("GET", below, Some("list")).unwrap();
        let path = ["b", "files"].map(str::to_owned).to_vec();
        assert_eq!(listed, Route::Sandboxes { session: "a".into(), path });
        for path in [
            "/tools/",
            "//tools",
            "/Tools",
            "/sessions/a/tools",
            "/sessions/a/tools/x/",
            "/sessions/a/b/tools/x",
        ] {
            assert_eq!(route("GET", path), Err(404), "{path}");
        }
        assert_eq!(route("POST", "/sessions/%FF/tools/x"), Err(400));
        for (method, path, allowed) in [("PUT", "/tools", "GET"), ("GET", "/sessions/a/tools/x", "POST")] {
            let refusal = find_route(method, path, None).unwrap_err();
            assert_eq!(refusal.into_parts().allow, Some(allowed));
        }
    }

    #[test]
    fn queries() {
        let (_, query) = find_route("GET", "/tools", Some("dialect=open%61i&b&c=d=e")).unwrap();
        let pairs: Vec<_> = query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("b", ""), ("c", "d=e"), ("dialect", "openai")]);
    }
}
