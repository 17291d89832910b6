//! Sandboxes, their processes, and snapshots: see [`koze_core::http`].

use koze_core::Session;
use koze_core::http::{self, Body, Query, Resource};
use koze_core::provider::Provider;
use koze_core::tool::Families;
use worker::{Request, Response};

use super::answer::{Refusal, respond};
use super::body;
use super::calls::stream_events;

/// Handles a request for the sandboxes of a session, or for its snapshots.
pub(super) async fn answer<F: Families, P: Provider>(
    request: Request,
    session: &Session<P>,
    (resource, path): (Resource, Vec<String>),
    query: Query,
) -> Result<Response, Refusal> {
    let request = http::Request {
        method: request.method().to_string(),
        resource,
        path,
        query: query.into_iter().collect(),
        last_event_id: request.headers().get("last-event-id")?,
        body: body::read(request).await?,
    };
    let http::Response { status, allow, body } = http::answer_request::<F, P>(session, request).await;
    match body {
        Body::Events(events) => stream_events(events),
        Body::Json(json) => {
            let headers = allow.map(|methods| ("allow", methods));
            Ok(respond(status, json, headers.into_iter().chain([("content-type", "application/json")]))?)
        }
    }
}
