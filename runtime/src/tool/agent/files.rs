//! `read_file` and `write_file`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::default_sandbox;
use crate::error::Result;
use crate::path::{absolute, anywhere};
use crate::pool::Pool;
use crate::provider::Provider;
use crate::sandbox::{Sandbox, Write};
use crate::tool::input;
use crate::tool::{Reply, Tool};

/// Reads a file.
#[derive(Debug)]
pub struct ReadFile;

/// What `read_file` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// The sandbox the file is in.
    #[serde(default = "default_sandbox")]
    sandbox: String,
    /// The file; a relative path starts at /home/user.
    path: String,
    /// The byte to begin at.
    #[serde(default)]
    offset: u64,
    /// How many bytes to read at most.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 16_777_216))]
    limit: u64,
}

fn default_limit() -> u64 {
    256 * 1024
}

/// The most that one call reads: it has to fit into memory several times over.
const MOST: u64 = 16 * 1024 * 1024;

/// What it gives.
#[derive(Debug, Serialize)]
struct Part {
    content: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
}

impl Tool for ReadFile {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = "Read a file of a sandbox, whole or in part. Gives its content and its size in bytes; what is not \
                                       UTF-8 comes as base64, and says so in encoding. Where there is more, truncated is true and \
                                       next_offset says where to go on.";
    type Input = Read;

    async fn call<P: Provider>(pool: &Pool<P>, input: Read) -> Result<Reply> {
        let limit = input::within("limit", input.limit, 1..=MOST)?;
        let path = absolute(&input.path)?;
        let sandbox = pool.sandbox(&input.sandbox).await?;
        // With three bytes more, a character that the limit cuts is there whole.
        let piece = sandbox.read(anywhere(&path), input.offset, limit + 3).await?;
        let mut bytes = piece.bytes;
        let asked = usize::try_from(limit).unwrap_or(usize::MAX);
        bytes.truncate(end_of_text(&bytes, asked));
        let next = input.offset + bytes.len() as u64;
        let (content, binary) = input::text(bytes);
        let truncated = next < piece.size;
        Reply::ok(Part {
            content,
            size: piece.size,
            encoding: binary.then_some("base64"),
            truncated,
            next_offset: truncated.then_some(next),
        })
    }
}

/// Where to cut: at the limit, but not in the middle of a character of what is text. One character is always there,
/// so that reading on comes to an end.
fn end_of_text(bytes: &[u8], limit: usize) -> usize {
    if bytes.len() <= limit {
        return bytes.len();
    }
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // A character that the read itself has cut.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return limit,
    };
    if valid.len() < limit {
        return limit;
    }
    match valid.floor_char_boundary(limit) {
        0 => valid.chars().next().map_or(limit, char::len_utf8),
        end => end,
    }
}

/// Writes a file.
#[derive(Debug)]
pub struct WriteFile;

/// What `write_file` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// The sandbox the file is in.
    #[serde(default = "default_sandbox")]
    sandbox: String,
    /// The file; a relative path starts at /home/user. Directories above it are made.
    path: String,
    /// What to write.
    content: String,
    /// Whether to write behind what is there.
    #[serde(default)]
    append: bool,
    /// How content is encoded.
    #[serde(default)]
    encoding: Encoding,
}

/// How the content of a file is encoded.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "documented values would make the schema a list of one-of")]
pub enum Encoding {
    // It is the text itself.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    // It is base64.
    #[serde(rename = "base64")]
    Base64,
}

impl Tool for WriteFile {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str =
        "Write a file in a sandbox, or behind what stands in it. Gives its size in bytes.";
    type Input = Written;

    async fn call<P: Provider>(pool: &Pool<P>, input: Written) -> Result<Reply> {
        let path = absolute(&input.path)?;
        let bytes = match input.encoding {
            Encoding::Utf8 => input.content.into_bytes(),
            Encoding::Base64 => input::from_base64(&input.content)?,
        };
        let how = if input.append { Write::Append } else { Write::Replace };
        let sandbox = pool.sandbox(&input.sandbox).await?;
        let size = sandbox.write(anywhere(&path), bytes, how).await?;
        Reply::ok(serde_json::json!({ "ok": true, "size": size }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(end_of_text(b"abc", 9), 3);
        assert_eq!(end_of_text(b"abcd", 2), 2);
        assert_eq!(end_of_text("aüb".as_bytes(), 2), 1);
        assert_eq!(end_of_text("üb".as_bytes(), 1), 2, "one character is always there");
        assert_eq!(end_of_text("a😀".as_bytes(), 2), 1);
        assert_eq!(end_of_text(&"a😀😀".as_bytes()[..8], 5), 5, "the read itself has cut the second");
        assert_eq!(end_of_text(b"\xff\xfe\xfd", 2), 2, "bytes are cut where they are");
    }
}
