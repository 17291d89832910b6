//! Responses: content, and errors as the JSON that the Worker sends as well.

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use koze_core::Error;
use koze_core::files::http::status;
use rmcp::model::{ErrorCode, JsonRpcError};
use serde_json::json;

/// The body of a response. An error cuts it off.
pub(super) type Body = BoxBody<Bytes, std::io::Error>;
pub(super) type Answer = Response<Body>;

/// Returns a body that is complete.
pub(super) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

/// Returns a response that is JSON.
pub(super) fn json_text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
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
    let body = json!({ "error": { "code": code, "message": message } }).to_string();
    json_text(status, body)
}

/// Returns the response to an error of a session.
pub(super) fn refuse_error(error: &Error) -> Answer {
    let code = StatusCode::from_u16(status(error.code));
    refused(code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), error.code.as_str(), &error.message)
}

/// Refuses a method. `allowed` lists those that the route takes.
pub(super) fn refuse_method(allowed: &'static str) -> Answer {
    let message = format!("this takes {allowed}");
    let mut answer = refused(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &message);
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    answer
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
