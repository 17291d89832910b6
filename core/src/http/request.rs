//! Requests and responses as data.

use std::pin::Pin;

use futures_util::Stream;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::body::ErrorBody;
use crate::error::{Code, Error};
use crate::files::http::status;

/// A request, which a host has authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Request {
    /// The method.
    pub method: String,
    /// What the path is below.
    pub resource: Resource,
    /// The decoded parts of the path after the resource.
    pub path: Vec<String>,
    /// The decoded parameters of the query.
    pub query: Vec<(String, String)>,
    /// The header `Last-Event-ID`.
    pub last_event_id: Option<String>,
    /// The body.
    #[serde(with = "base64_text")]
    pub body: Vec<u8>,
}

/// What a request is for, below `/sessions/:id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Resource {
    /// The sandboxes, with their files and processes.
    #[default]
    Sandboxes,
    /// The snapshots of workspaces.
    Snapshots,
}

/// Bytes as base64, because JSON would have a number for each.
mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The response to a request.
pub struct Response {
    /// The status.
    pub status: u16,
    /// The header `Allow`.
    pub allow: Option<&'static str>,
    /// The body.
    pub body: Body,
}

/// The body of a response.
pub enum Body {
    /// JSON.
    Json(String),
    /// Server-sent events. Dropping them ends the response.
    Events(EventStream),
}

/// Server-sent events, each complete.
#[cfg(not(target_arch = "wasm32"))]
pub type EventStream = Pin<Box<dyn Stream<Item = String> + Send>>;
/// Server-sent events, each complete.
#[cfg(target_arch = "wasm32")]
pub type EventStream = Pin<Box<dyn Stream<Item = String>>>;

impl Request {
    /// Parses the body.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::new(Code::InvalidInput, format!("the body is not what this route takes: {error}"))
        })
    }

    /// Parses the body. An empty one means the default.
    pub(super) fn json_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, Error> {
        if self.body.is_empty() { Ok(T::default()) } else { self.json() }
    }

    /// Returns a parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().rfind(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns a parameter that is `true` or `false`. Its name alone means `true`.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        match self.parameter(name) {
            None => Ok(default),
            Some("" | "true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(Error::new(Code::InvalidInput, format!("`{name}` must be true or false"))),
        }
    }
}

/// Why a request is refused.
#[derive(Debug)]
pub enum Refusal {
    /// There is no such route.
    NoRoute,
    /// The route takes these methods.
    Method(&'static str),
    /// The request failed.
    Failed(Error),
}

/// The parts of the response to a refused request.
#[derive(Debug)]
pub struct RefusalParts {
    /// The status.
    pub status: u16,
    /// The header `Allow`.
    pub allow: Option<&'static str>,
    /// The kind of the error, in one word.
    pub code: &'static str,
    /// What was wrong, and what would be right.
    pub message: String,
}

impl Refusal {
    /// Returns the parts of the response.
    pub fn into_parts(self) -> RefusalParts {
        let (status, allow, code, message) = match self {
            Refusal::NoRoute => (404, None, "not_found", "not found: `GET /` lists the routes".to_owned()),
            Refusal::Method(allowed) => {
                (405, Some(allowed), "method_not_allowed", format!("this takes {allowed}"))
            }
            Refusal::Failed(error) => (status(error.code), None, error.code.as_str(), error.message),
        };
        RefusalParts { status, allow, code, message }
    }

    pub(super) fn into_response(self) -> Response {
        let RefusalParts { status, allow, code, message } = self.into_parts();
        Response { allow, ..with_status(status, &ErrorBody::new(code, message)) }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Failed(error)
    }
}

/// Returns a response with JSON.
pub(super) fn ok(body: &impl Serialize) -> Response {
    with_status(200, body)
}

/// Returns a response with JSON.
pub(super) fn with_status(status: u16, body: &impl Serialize) -> Response {
    let json = serde_json::to_string(body).expect("bodies are plain data");
    Response { status, allow: None, body: Body::Json(json) }
}
