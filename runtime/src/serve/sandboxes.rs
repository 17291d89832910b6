//! Sandboxes and their processes: see [`koze_core::http`].

use koze_core::Session;
use koze_core::http::{self, Body, Query};
use koze_core::provider::Provider;
use worker::{Request, Response};

use super::answer::{Refusal, respond};
use super::body;
use super::calls::stream_events;

/// Handles a request for the sandboxes of a session.
pub(super) async fn answer<P: Provider>(
    request: Request,
    session: &Session<P>,
    path: Vec<String>,
    query: Query,
) -> Result<Response, Refusal> {
    let request = http::Request {
        method: request.method().to_string(),
        path,
        query: query.into_iter().collect(),
        last_event_id: request.headers().get("last-event-id")?,
        body: body::read(request).await?,
    };
    let http::Response { status, allow, body } = http::answer_request(session, request).await;
    match body {
        Body::Events(events) => stream_events(events),
        Body::Json(json) => {
            let headers = allow.map(|methods| ("allow", methods));
            Ok(respond(status, json, headers.into_iter().chain([("content-type", "application/json")]))?)
        }
    }
}
