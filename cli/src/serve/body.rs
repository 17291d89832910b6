//! The bodies of requests.

use http_body_util::{BodyExt as _, Limited};
use hyper::StatusCode;
use hyper::body::{Bytes, Incoming};
use koze_core::Code;

use super::answer::{Answer, refused};
use crate::mcp::MAX_REQUEST;

/// Reads a body, or returns the response to one that is too large or not complete.
pub(super) async fn read_body(body: Incoming) -> Result<Bytes, Answer> {
    let body = Limited::new(body, MAX_REQUEST).collect().await.map_err(|_| {
        let message = "a request must be complete and have at most 64 MiB";
        refused(StatusCode::PAYLOAD_TOO_LARGE, Code::TooLarge.as_str(), message)
    })?;
    Ok(body.to_bytes())
}
