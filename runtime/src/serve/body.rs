//! Request bodies and their limit.

use futures_util::StreamExt as _;
use worker::Request;

use super::answer::Refusal;
use koze_core::error::Result as Read;
use koze_core::tool::{Input, ReadError};

/// The longest body: a file written by a model, as JSON.
pub(super) const MAX_BODY: usize = 32 << 20;

/// Reads the body as the input of a tool. The inner error is reported as the tool's result.
pub(super) async fn input(request: Request) -> Result<Read<Input>, Refusal> {
    let bytes = read(request).await?;
    match Input::read(&bytes).map_err(ReadError::into_tool_error) {
        Ok(input) => Ok(Ok(input)),
        Err(Ok(error)) => Ok(Err(error)),
        Err(Err(error)) => Err(Refusal::invalid(format!(
            "the body is not valid JSON: {error}; send the tool's input as a JSON object"
        ))),
    }
}

/// Reads the body.
pub(super) async fn read(mut request: Request) -> Result<Vec<u8>, Refusal> {
    let announced = request.headers().get("content-length")?;
    match announced.and_then(|length| length.parse::<usize>().ok()) {
        Some(length) if length > MAX_BODY => return Err(too_large()),
        // The platform reads no more than the announced length.
        Some(_) => return Ok(request.bytes().await?),
        None if request.inner().body().is_none() => return Ok(Vec::new()),
        None => {}
    }
    let mut bytes = Vec::new();
    let mut stream = request.stream()?;
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk?);
        if bytes.len() > MAX_BODY {
            return Err(too_large());
        }
    }
    Ok(bytes)
}

fn too_large() -> Refusal {
    let message =
        format!("a body must have at most {MAX_BODY} bytes: write a larger file in parts with `append`");
    Refusal::new(413, "too_large", message)
}
