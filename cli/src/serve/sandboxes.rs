//! The route `sandboxes`: destroys a sandbox.

use hyper::{Method, StatusCode};
use koze_core::Error;

use super::answer::{Answer, json_text};
use super::answer::{refuse_error, refuse_method};
use super::route::decoded;
use crate::mcp::supervised::Supervised;

/// A sandbox that a request names.
#[derive(Debug, PartialEq)]
pub(super) struct Route {
    session: String,
    sandbox: String,
}

impl Route {
    /// Parses a path such as `/sessions/default/sandboxes/py`. Returns `None` for any other route.
    pub(super) fn parse(path: &str) -> Option<Result<Self, Error>> {
        let mut parts = path.strip_prefix("/sessions/")?.split('/');
        let (session, "sandboxes", sandbox, None) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next())
        else {
            return None;
        };
        Some(decoded(session).and_then(|session| Ok(Route { session, sandbox: decoded(sandbox)? })))
    }
}

/// Answers a request, as the Worker does.
pub(super) async fn answer(backend: &Supervised, route: Result<Route, Error>, method: &Method) -> Answer {
    if method != Method::DELETE {
        return refuse_method("DELETE");
    }
    match destroy_sandbox(backend, route).await {
        Ok(()) => json_text(StatusCode::OK, r#"{"ok":true}"#),
        Err(error) => refuse_error(&error),
    }
}

async fn destroy_sandbox(backend: &Supervised, route: Result<Route, Error>) -> Result<(), Error> {
    let Route { session, sandbox } = route?;
    backend.check_session(&session)?;
    backend.client().destroy(&sandbox).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let route = Route { session: "a/b".into(), sandbox: "c".into() };
        assert_eq!(Route::parse("/sessions/a%2Fb/sandboxes/c").unwrap().unwrap(), route);
        assert!(Route::parse("/sessions/%FF/sandboxes/c").unwrap().is_err());
        for path in
            ["/sessions/a/sandboxes", "/sessions/a/sandboxes/c/files/x", "/sessions/a/tools/c", "/mcp"]
        {
            assert!(Route::parse(path).is_none(), "{path}");
        }
    }
}
