//! Decides what the page may request: only the routes that it needs.

use hyper::Request;
use hyper::header::{HeaderMap, ORIGIN};
use koze_core::http::{Access, Refusal, Route, find_route};

use super::guard::SITE;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It only reads. It may wake a sandbox.
    Read,
    /// It calls a tool that only reads. The call is recorded, and may start the session.
    Ask,
    /// It changes a sandbox, or may change one.
    Write,
    /// It opens a terminal, in which anything can be changed.
    Terminal,
    /// Nothing that the page needs.
    Other,
}

/// Returns what a request does.
///
/// # Errors
/// [`Refusal`] if there is no such route.
pub(super) fn classify<B>(request: &Request<B>) -> Result<Effect, Refusal> {
    let (method, uri) = (request.method().as_str(), request.uri());
    let (route, query) = find_route(method, uri.path(), uri.query())?;
    let is_other = method == "PUT" && !query.is_empty();
    if is_other {
        return Ok(Effect::Other);
    }
    Ok(match &route {
        Route::Call { tool, .. } => call_effect(query.get("tools").map(String::as_str), tool),
        route => effect(route, method),
    })
}

/// The tools that show what scripts keep, and only read it.
const SCRIPT_READERS: [&str; 7] = [
    "list_state_keys",
    "get_state",
    "db_schema",
    "list_libraries",
    "read_library",
    "list_tools",
    "read_tool",
];

/// Returns what a call of a tool does. The page names one family, so that no created tool can have the name.
fn call_effect(family: Option<&str>, tool: &str) -> Effect {
    match (family, tool) {
        (Some("script"), tool) if SCRIPT_READERS.contains(&tool) => Effect::Ask,
        // A statement may write. `browse` exposes a port.
        (Some("script"), "db_sql") | (Some("agent"), "browse") => Effect::Write,
        _ => Effect::Other,
    }
}

fn effect(route: &Route, method: &str) -> Effect {
    match route {
        Route::Sessions
        | Route::Egress { .. }
        | Route::Usage { .. }
        | Route::Log { .. }
        | Route::File { access: Access::Read | Access::Describe, .. } => Effect::Read,
        Route::File { access: Access::Write, .. } => Effect::Write,
        Route::Terminal { .. } => Effect::Terminal,
        Route::Sandboxes { path, .. } => {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            match (path.as_slice(), method) {
                (_, "GET") => Effect::Read,
                ([_, "files", ..], "DELETE") | ([_, "processes", _, "stdin" | "signal"], "POST") => {
                    Effect::Write
                }
                _ => Effect::Other,
            }
        }
        Route::Snapshots { .. } => match method {
            "GET" => Effect::Read,
            "POST" => Effect::Write,
            _ => Effect::Other,
        },
        Route::Tools | Route::OpenApi | Route::Mcp | Route::Call { .. } => Effect::Other,
    }
}

/// Checks that a request that changes something comes from the page itself. Its origin was compared already.
///
/// # Errors
/// Returns a message for the client.
pub(super) fn check_writer(headers: &HeaderMap) -> Result<(), &'static str> {
    let is_own =
        headers.contains_key(ORIGIN) && headers.get_all(SITE).iter().all(|site| site == "same-origin");
    if is_own { Ok(()) } else { Err("only the page of `koze ui` may change something") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(method: &str, path: &str) -> Result<Effect, u16> {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        classify(&request).map_err(|refusal| refusal.into_parts().status)
    }

    #[test]
    fn the_page_may_request_what_it_needs() {
        let sandbox = "/sessions/s/sandboxes/a";
        for (method, path, expected) in [
            ("GET", "/sessions", Ok(Effect::Read)),
            ("GET", "/sessions/s/log?since=1", Ok(Effect::Read)),
            ("GET", "/sessions/s/egress", Ok(Effect::Read)),
            ("GET", "/sessions/s/usage", Ok(Effect::Read)),
            ("GET", "/sessions/s/sandboxes/a/files/x", Ok(Effect::Read)),
            ("HEAD", "/sessions/s/sandboxes/a/files/x", Ok(Effect::Read)),
            ("GET", "/sessions/s/sandboxes/a/files/x?list", Ok(Effect::Read)),
            ("GET", "/sessions/s/sandboxes/a/processes/1/events", Ok(Effect::Read)),
            ("PUT", "/sessions/s/sandboxes/a/files/x", Ok(Effect::Write)),
            ("DELETE", "/sessions/s/sandboxes/a/files/x", Ok(Effect::Write)),
            ("POST", "/sessions/s/sandboxes/a/processes/1/stdin?close=true", Ok(Effect::Write)),
            ("POST", "/sessions/s/sandboxes/a/processes/1/signal", Ok(Effect::Write)),
            ("GET", "/sessions/s/sandboxes/a/terminal", Ok(Effect::Terminal)),
            ("PUT", "/sessions/s/sandboxes/a/files/x?archive=tar", Ok(Effect::Other)),
            ("POST", "/sessions/s/sandboxes", Ok(Effect::Other)),
            ("POST", "/sessions/s/sandboxes/a/processes", Ok(Effect::Other)),
            ("POST", "/sessions/s/tools/shell", Ok(Effect::Other)),
            ("POST", "/sessions/s/tools/shell?tools=script", Ok(Effect::Other)),
            ("POST", "/sessions/s/tools/list_tools?tools=script", Ok(Effect::Ask)),
            ("POST", "/sessions/s/tools/list_tools?tools=script,agent", Ok(Effect::Other)),
            ("POST", "/sessions/s/tools/list_tools", Ok(Effect::Other)),
            ("POST", "/sessions/s/tools/set_state?tools=script", Ok(Effect::Other)),
            ("POST", "/sessions/s/tools/db_sql?tools=script", Ok(Effect::Write)),
            ("POST", "/sessions/s/tools/browse?tools=agent", Ok(Effect::Write)),
            ("GET", "/sessions/s/tools/browse?tools=agent", Err(405)),
            ("GET", "/sessions/s/snapshots", Ok(Effect::Read)),
            ("POST", "/sessions/s/snapshots", Ok(Effect::Write)),
            ("POST", "/sessions/s/snapshots/snap_1/branch", Ok(Effect::Write)),
            ("DELETE", "/sessions/s/snapshots/snap_1", Ok(Effect::Other)),
            ("DELETE", sandbox, Ok(Effect::Other)),
            ("GET", "/tools", Ok(Effect::Other)),
            ("POST", "/mcp", Ok(Effect::Other)),
            ("GET", "/openapi.json", Ok(Effect::Other)),
            ("POST", "/sessions", Err(405)),
            ("GET", "/sessions/s", Err(404)),
        ] {
            assert_eq!(classified(method, path), expected, "{method} {path}");
        }
    }
}
