//! What tools have in common: paths as a model writes them, ranges, and bytes as JSON.

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Code, Error, Result};
use crate::sandbox::Place;

/// Where relative paths of the agent's tools start.
pub(super) const HOME: &str = "/home/user";

/// The longest path, in bytes.
const LONGEST: usize = 4096;

/// A path of the agent's: absolute, or relative to [`HOME`]. What it leads to is found inside the sandbox.
pub(super) fn path(text: &str) -> Result<String> {
    let wrong = |why: &str| Err(Error::new(Code::InvalidInput, format!("a path {why}")));
    if text.is_empty() {
        return wrong("is not empty");
    }
    if text.contains('\0') {
        return wrong("holds no NUL");
    }
    let path = if text.starts_with('/') { text.to_owned() } else { format!("{HOME}/{text}") };
    if path.len() > LONGEST {
        return wrong(&format!("has {LONGEST} bytes at most"));
    }
    Ok(path)
}

/// A path confined to the sandbox alone.
pub(super) fn anywhere(path: &str) -> Place<'_> {
    Place { root: "/", path }
}

/// A number of the range that the schema says.
pub(super) fn within(name: &str, value: u64, range: RangeInclusive<u64>) -> Result<u64> {
    if range.contains(&value) {
        return Ok(value);
    }
    let message = format!("`{name}` is {value}, and takes {} to {}", range.start(), range.end());
    Err(Error::new(Code::InvalidInput, message))
}

/// Bytes as JSON holds them: text where they are UTF-8, else base64, and whether they are that.
pub(super) fn text(bytes: Vec<u8>) -> (String, bool) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (STANDARD.encode(error.as_bytes()), true),
    }
}

/// The bytes that base64 stands for.
pub(super) fn from_base64(text: &str) -> Result<Vec<u8>> {
    STANDARD
        .decode(text)
        .map_err(|error| Error::new(Code::InvalidInput, format!("`content` is no base64: {error}")))
}
