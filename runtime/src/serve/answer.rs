//! Responses and errors, as JSON.

use serde::Serialize;
use worker::{Response, ResponseBody, ResponseBuilder, console_error};

use koze_core::error::Error;
use koze_core::files::http::status;
use koze_core::http::{self, ErrorBody, RefusalParts};

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The HTTP status.
    pub(super) status: u16,
    /// The kind of the error, in one word.
    pub(super) code: &'static str,
    /// What was wrong, and what would be right.
    pub(super) message: String,
    /// An additional header.
    pub(super) header: Option<(&'static str, &'static str)>,
}

impl Refusal {
    pub(super) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Refusal { status, code, message: message.into(), header: None }
    }

    /// Creates the response to an invalid request.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Refusal::new(400, "invalid_input", message)
    }

    pub(super) fn with_header(self, name: &'static str, value: &'static str) -> Self {
        Refusal { header: Some((name, value)), ..self }
    }

    pub(super) fn into_response(self) -> worker::Result<Response> {
        let body = ErrorBody::new(self.code, self.message);
        let headers = self.header.into_iter().chain([("content-type", "application/json")]);
        respond(self.status, serde_json::to_string(&body)?, headers)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::new(status(error.code), error.code.as_str(), error.message)
    }
}

impl From<http::Refusal> for Refusal {
    fn from(refusal: http::Refusal) -> Self {
        let RefusalParts { status, allow, code, message } = refusal.into_parts();
        Refusal { status, code, message, header: allow.map(|methods| ("allow", methods)) }
    }
}

impl From<worker::Error> for Refusal {
    /// Errors of the platform can contain anything, so they go to the log only.
    fn from(error: worker::Error) -> Self {
        console_error!("koze: {error}");
        Refusal::new(500, "internal", "the Worker failed: see its log")
    }
}

/// Returns a value as JSON.
pub(super) fn json(value: &impl Serialize) -> Result<Response, Refusal> {
    let text = serde_json::to_string(value).map_err(worker::Error::from)?;
    Ok(respond(200, text, [("content-type", "application/json")])?)
}

/// Returns text for people.
pub(super) fn text(text: &'static str) -> Result<Response, Refusal> {
    Ok(respond(200, text.to_owned(), [("content-type", "text/plain; charset=utf-8")])?)
}

/// Returns a response with a body.
pub(super) fn respond(
    status: u16,
    body: String,
    headers: impl IntoIterator<Item = (&'static str, &'static str)>,
) -> worker::Result<Response> {
    Ok(head(status, headers)?.body(ResponseBody::Body(body.into_bytes())))
}

/// Begins a response.
pub(super) fn head<'v>(
    status: u16,
    headers: impl IntoIterator<Item = (&'static str, &'v str)>,
) -> worker::Result<ResponseBuilder> {
    let mut head = ResponseBuilder::new().with_status(status);
    for (name, value) in headers {
        head = head.with_header(name, value)?;
    }
    Ok(head)
}
