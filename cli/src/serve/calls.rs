//! The route `tools`: a tool call as a request, answered with its result, or with events while it runs.

use futures_util::StreamExt as _;
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use koze_core::progress::{self, Progress, events};
use koze_core::tool::{Input, ReadError};
use koze_core::{Code, Error, ToolResult};
use tokio::sync::mpsc;

use super::answer::{Answer, json_text, refuse_error, refuse_method, refused};
use super::route::decoded;
use crate::mcp::MAX_REQUEST;
use crate::mcp::supervised::Supervised;

/// A tool that a request calls.
#[derive(Debug)]
pub(super) struct Route {
    session: String,
    tool: String,
}

impl Route {
    /// Parses a path such as `/sessions/default/tools/shell`. Returns `None` for any other route.
    pub(super) fn of(path: &str) -> Option<Result<Self, Error>> {
        let mut parts = path.strip_prefix("/sessions/")?.split('/');
        let (session, "tools", tool, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next())
        else {
            return None;
        };
        Some(decoded(session).and_then(|session| Ok(Route { session, tool: decoded(tool)? })))
    }
}

/// Handles a request.
pub(super) async fn answer(
    backend: &Supervised,
    route: Result<Route, Error>,
    request: Request<Incoming>,
) -> Answer {
    match handle_call(backend, route, request).await {
        Ok(answer) | Err(answer) => answer,
    }
}

async fn handle_call(
    backend: &Supervised,
    route: Result<Route, Error>,
    request: Request<Incoming>,
) -> Result<Answer, Answer> {
    let invalid = |message: &str| refused(StatusCode::BAD_REQUEST, Code::InvalidInput.as_str(), message);
    let Route { session, tool } = route.map_err(|error| invalid(&error.message))?;
    backend.check_session(&session).map_err(|error| refuse_error(&error))?;
    if request.method() != Method::POST {
        return Err(refuse_method("POST"));
    }
    let as_events = wants_events(request.headers());
    let Ok(body) = Limited::new(request.into_body(), MAX_REQUEST).collect().await else {
        let message = "a request must be complete and have at most 64 MiB";
        return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message));
    };
    // The tool's result says what it does not accept.
    let input = match Input::read(&body.to_bytes()).map_err(ReadError::into_tool_error) {
        Ok(input) => Ok(input),
        Err(Ok(error)) => Err(error),
        Err(Err(error)) => {
            let message =
                format!("the body is not valid JSON: {error}; send the tool's input as a JSON object");
            return Err(invalid(&message));
        }
    };
    if as_events {
        return Ok(stream_events(backend.clone(), tool, input));
    }
    let result = run_tool(backend, &tool, input, None).await;
    let body = serde_json::to_vec(&result).expect("a result is plain data");
    Ok(json_text(StatusCode::OK, body))
}

fn wants_events(headers: &HeaderMap) -> bool {
    let all = headers.get_all(header::ACCEPT);
    all.iter().filter_map(|accept| accept.to_str().ok()).any(events::are_accepted)
}

async fn run_tool(
    backend: &Supervised,
    tool: &str,
    input: Result<Input, Error>,
    progress: Option<Progress>,
) -> ToolResult {
    match input {
        Ok(input) => backend.call(tool, input, progress).await.into(),
        Err(error) => Err(error).into(),
    }
}

/// Returns the events of a call. A client that disconnects cancels the call.
fn stream_events(backend: Supervised, tool: String, input: Result<Input, Error>) -> Answer {
    let (progress, reports) = Progress::channel();
    let call = async move { run_tool(&backend, &tool, input, Some(progress)).await };
    let mut told = Box::pin(events::events(progress::follow(call, reports)));
    let (send, mut frames) = mpsc::channel::<String>(1);
    tokio::spawn(async move {
        loop {
            let frame = tokio::select! {
                frame = told.next() => frame,
                // The client is gone.
                () = send.closed() => return,
            };
            let Some(frame) = frame else { return };
            if send.send(frame).await.is_err() {
                return;
            }
        }
    });
    let frames = futures_util::stream::poll_fn(move |cx| frames.poll_recv(cx));
    let frames = frames.map(|frame| Ok(Frame::data(Bytes::from(frame))));
    let mut answer = Response::new(BodyExt::boxed(StreamBody::new(frames)));
    for (name, value) in events::HEADERS {
        answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    answer
}
