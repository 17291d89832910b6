//! Shared parts of tools: ranges, and bytes in JSON.

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Code, Error, Result};

/// Deserializes a number within the range of the schema.
pub(super) fn within(name: &str, value: u64, range: RangeInclusive<u64>) -> Result<u64> {
    if range.contains(&value) {
        return Ok(value);
    }
    let message = format!("`{name}` is {value}, but must be from {} to {}", range.start(), range.end());
    Err(Error::new(Code::InvalidInput, message))
}

/// Encodes bytes for JSON: as text if they are valid UTF-8, otherwise as base64. Returns whether they are text.
pub(super) fn text(bytes: Vec<u8>) -> (String, bool) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (STANDARD.encode(error.as_bytes()), true),
    }
}

/// Decodes base64.
pub(super) fn from_base64(text: &str) -> Result<Vec<u8>> {
    STANDARD.decode(text).map_err(|error| {
        Error::new(Code::InvalidInput, format!("`content` is not valid base64: {error}")).with_source(error)
    })
}
