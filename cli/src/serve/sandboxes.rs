//! Sandboxes, their processes, and snapshots: see [`koze_core::http`].

use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Request, StatusCode};
use koze_core::http::{self, Query, Resource};

use super::answer::{Answer, json_text, refuse_error, stream_events};
use super::body::read_body;
use crate::mcp::supervised::Supervised;
use crate::session::http::{Responded, RespondedBody};

/// Answers a request, as the Worker does.
pub(super) async fn answer(
    backend: &Supervised,
    (resource, path): (Resource, Vec<String>),
    query: Query,
    request: Request<Incoming>,
) -> Result<Answer, Answer> {
    let last_event_id = request.headers().get("last-event-id").and_then(|id| id.to_str().ok());
    let (method, last_event_id) = (request.method().to_string(), last_event_id.map(str::to_owned));
    let body = read_body(request.into_body()).await?.into();
    let request =
        http::Request { method, resource, path, query: query.into_iter().collect(), last_event_id, body };
    let responded = backend.client().respond(backend.profiles(), request).await;
    let Responded { status, allow, body } = responded.map_err(refuse_error)?;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = match body {
        RespondedBody::Events(events) => return Ok(stream_events(events.into_events())),
        RespondedBody::Json(json) => json,
    };
    let mut answer = json_text(status, json);
    if let Some(allow) = allow.and_then(|allow| HeaderValue::try_from(allow).ok()) {
        answer.headers_mut().insert(ALLOW, allow);
    }
    Ok(answer)
}
