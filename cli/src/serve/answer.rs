//! Responses: content, and errors as the JSON that the Worker sends as well.

use futures_util::{Stream, StreamExt as _};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Collected, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use koze_core::Error;
use koze_core::http::{ErrorBody, Refusal, RefusalParts};
use koze_core::progress::events::HEADERS;
use rmcp::model::{ErrorCode, JsonRpcError};
use tokio::sync::mpsc;

/// The body of a response. An error cuts it off.
pub(super) type Body = BoxBody<Bytes, std::io::Error>;
pub(super) type Answer = Response<Body>;

/// Returns a body that is complete.
pub(super) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

/// Returns a body of the frames that a task sends, up to its first error.
pub(super) fn stream_body(mut frames: mpsc::Receiver<std::io::Result<Frame<Bytes>>>) -> Body {
    BodyExt::boxed(StreamBody::new(futures_util::stream::poll_fn(move |cx| frames.poll_recv(cx))))
}

/// Returns a response that is JSON.
pub(super) fn json_text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns a response that is text for people.
pub(super) fn text(text: &'static str) -> Answer {
    let mut response = Response::new(whole(text));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Returns a response without content.
pub(super) fn no_content() -> Answer {
    let mut response = Response::new(whole(""));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Returns an error response.
pub(super) fn refused(status: StatusCode, code: &str, message: &str) -> Answer {
    let body = serde_json::to_string(&ErrorBody::new(code, message)).expect("an error is plain data");
    json_text(status, body)
}

/// Returns the response to a request that is refused.
pub(super) fn refuse(refusal: Refusal) -> Answer {
    let RefusalParts { status, allow, code, message } = refusal.into_parts();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = refused(status, code, &message);
    if let Some(allowed) = allow {
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    }
    answer
}

/// Returns the response to an error of a session.
pub(super) fn refuse_error(error: Error) -> Answer {
    refuse(error.into())
}

/// Refuses a method. `allowed` lists those that the route takes.
pub(super) fn refuse_method(allowed: &'static str) -> Answer {
    refuse(Refusal::Method(allowed))
}

/// Returns an error of the protocol. A message that is not JSON is an error of HTTP as well.
pub(super) fn protocol_error(error: &JsonRpcError) -> Answer {
    let body = serde_json::to_string(error).unwrap_or_default();
    let is_unread = error.error.code == ErrorCode::PARSE_ERROR;
    json_text(if is_unread { StatusCode::BAD_REQUEST } else { StatusCode::OK }, body)
}

/// Returns an error of the protocol library, which describes it in plain text, as the JSON of all other errors.
pub(super) async fn with_json(answer: Answer) -> Answer {
    let status = answer.status();
    let json = HeaderValue::from_static("application/json");
    if answer.headers().get(header::CONTENT_TYPE) == Some(&json) {
        return answer;
    }
    let code = match status {
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::NOT_FOUND => "not_found",
        _ => "invalid_input",
    };
    let text = answer.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
    refused(status, code, &String::from_utf8_lossy(&text))
}

/// Returns a response with events. A client that disconnects drops them.
pub(super) fn stream_events(events: impl Stream<Item = String> + Send + 'static) -> Answer {
    let mut told = Box::pin(events);
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
    for (name, value) in HEADERS {
        answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    answer
}
