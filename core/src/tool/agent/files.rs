//! `read_file` and `write_file`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{default_sandbox, existing_sandbox};
use crate::error::Result;
use crate::path::{absolute, anywhere};
use crate::provider::Provider;
use crate::sandbox::{Piece, Sandbox, Write};
use crate::session::Session;
use crate::tool::input;
use crate::tool::{Reply, Tool};

/// Reads a file.
#[derive(Debug)]
pub struct ReadFile;

/// The input of `read_file`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// The sandbox the file is in.
    #[serde(default = "default_sandbox")]
    sandbox: String,
    /// The path of the file. A relative path starts at /home/user.
    path: String,
    /// The byte offset to start at.
    #[serde(default)]
    offset: u64,
    /// The maximum number of bytes to read.
    #[serde(default = "default_limit")]
    #[cfg_attr(test, schemars(range(min = 1, max = 16_777_216)))]
    limit: u64,
}

fn default_limit() -> u64 {
    256 * 1024
}

/// The maximum that one call reads: it must fit into memory several times.
pub(in crate::tool) const MAX_READ: u64 = 16 * 1024 * 1024;

/// The result.
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
    const DESCRIPTION: &'static str = "Read a file from a sandbox, whole or in part. Returns content and size \
        in bytes. Content that is \
                                       not UTF-8 is returned as base64, and encoding is set. If the file is longer than limit, or \
                                       than one result can hold, truncated is true and next_offset is where to continue.";
    type Input = Read;

    async fn call<P: Provider>(session: &Session<P>, input: Read) -> Result<Reply> {
        let limit = input::check_range("limit", input.limit, 1..=MAX_READ)?;
        let path = absolute(&input.path)?;
        let sandbox = existing_sandbox(session, &input.sandbox).await?;
        // Three more bytes complete a character that the limit would cut.
        let piece = sandbox.read(anywhere(&path), input.offset, limit + 3).await?;
        Reply::ok(read_part(piece, input.offset, limit))
    }
}

/// Returns the result for a piece at an offset, of which at most `limit` bytes and three more were read.
pub(in crate::tool) fn read_part(piece: Piece, offset: u64, limit: u64) -> impl Serialize {
    let mut bytes = piece.bytes;
    let asked = usize::try_from(limit).unwrap_or(usize::MAX);
    bytes.truncate(end_of_text(&bytes, asked));
    to_part(bytes, offset, piece.size)
}

/// Returns the result for bytes at an offset of a file.
pub(in crate::tool) fn to_part(bytes: Vec<u8>, offset: u64, size: u64) -> impl Serialize {
    let next = offset + bytes.len() as u64;
    let (content, binary) = input::encode_bytes(bytes);
    let truncated = next < size;
    Part {
        content,
        size,
        encoding: binary.then_some("base64"),
        truncated,
        next_offset: truncated.then_some(next),
    }
}

/// Cuts the content of a result so that its JSON, encoded as a JSON string, has at most the given number of bytes.
/// Returns false if the value is not such a result.
pub(in crate::tool) fn cut_content(value: &mut Value, most: usize) -> bool {
    /// Room for the other fields.
    const FIELDS: usize = 512;

    let Some(fields) = value.as_object_mut() else { return false };
    let Some(size) = fields.get("size").and_then(Value::as_u64) else { return false };
    let end = fields.get("next_offset").and_then(Value::as_u64).unwrap_or(size);
    let binary = fields.contains_key("encoding");
    let Some(Value::String(content)) = fields.get_mut("content") else { return false };
    let mut room = most.saturating_sub(FIELDS);
    let fits = |(_, character): &(usize, char)| {
        let Some(left) = room.checked_sub(escaped_twice(*character)) else { return true };
        room = left;
        false
    };
    let Some((mut at, _)) = content.char_indices().find(fits) else { return false };
    let left_out = if binary {
        // Four characters encode three bytes, or fewer at the end.
        at -= at % 4;
        let padding = content.bytes().rev().take_while(|byte| *byte == b'=').count();
        (content.len() - at) / 4 * 3 - padding
    } else {
        content.len() - at
    };
    content.truncate(at);
    fields.insert("truncated".to_owned(), true.into());
    fields.insert("next_offset".to_owned(), (end - left_out as u64).into());
    true
}

/// Returns how many bytes a character takes in JSON that is encoded as a JSON string.
fn escaped_twice(character: char) -> usize {
    match character {
        '"' | '\\' => 4,
        '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 3,
        '\0'..='\u{1f}' => 7,
        other => other.len_utf8(),
    }
}

/// Returns where to cut: at the limit, but not within a character of text. At least one character is kept, so that
/// reading on makes progress.
fn end_of_text(bytes: &[u8], limit: usize) -> usize {
    if bytes.len() <= limit {
        return bytes.len();
    }
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // A character that was cut by the read itself.
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

/// The input of `write_file`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// The sandbox the file is in.
    #[serde(default = "default_sandbox")]
    sandbox: String,
    /// The path of the file. A relative path starts at /home/user. Missing parent directories are created.
    path: String,
    /// The content to write.
    content: String,
    /// Append to the file instead of replacing it.
    #[serde(default)]
    append: bool,
    /// The encoding of content.
    #[serde(default)]
    encoding: Encoding,
}

/// How the content of a file is encoded.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[allow(missing_docs, reason = "documented values would make the schema a list of one-of")]
pub enum Encoding {
    // The text itself.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    // Base64.
    #[serde(rename = "base64")]
    Base64,
}

impl Tool for WriteFile {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str =
        "Write a file in a sandbox, or append to it. Returns the file's size in bytes.";
    type Input = Written;

    async fn call<P: Provider>(session: &Session<P>, input: Written) -> Result<Reply> {
        let path = absolute(&input.path)?;
        let bytes = match input.encoding {
            Encoding::Utf8 => input.content.into_bytes(),
            Encoding::Base64 => input::from_base64(&input.content)?,
        };
        let how = if input.append { Write::Append } else { Write::Replace };
        let sandbox = session.sandbox(&input.sandbox).await?;
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

    /// Reading on from the end of each part returns the whole file, whatever it contains.
    #[test]
    fn cut_characters_come_with_the_next_part() {
        const MAX_NAME: usize = 4096;
        for pattern in [&b"a"[..], b"\n", b"\0", "\"\\\u{1f600}é\r\u{7}".as_bytes(), b"\xff\0x"] {
            let file = pattern.repeat(9000 / pattern.len());
            let (mut at, mut parts) = (0, 0);
            while at < file.len() {
                let whole = to_part(file[at..].to_vec(), at as u64, file.len() as u64);
                let mut value = serde_json::to_value(whole).unwrap();
                let sent = |value: &Value| serde_json::to_string(&value.to_string()).unwrap().len();
                let long = sent(&value) > MAX_NAME;
                assert_eq!(long, cut_content(&mut value, MAX_NAME) && long, "{pattern:?}");
                assert!(
                    sent(&value) <= MAX_NAME && (!long || sent(&value) > MAX_NAME - 600),
                    "{pattern:?}: {}",
                    sent(&value)
                );
                let content = value["content"].as_str().unwrap();
                let bytes = match value.get("encoding") {
                    Some(_) => input::from_base64(content).unwrap(),
                    None => content.as_bytes().to_vec(),
                };
                assert!(!bytes.is_empty() && file[at..].starts_with(&bytes), "{pattern:?}");
                at += bytes.len();
                parts += 1;
                let more = at < file.len();
                assert_eq!(value["size"], file.len());
                assert_eq!(value.get("next_offset").and_then(Value::as_u64), more.then_some(at as u64));
                assert_eq!(value.get("truncated"), more.then_some(&Value::Bool(true)));
            }
            assert!(parts > 1, "{pattern:?}");
        }
        for mut other in [serde_json::json!([]), serde_json::json!({ "stdout": "a".repeat(9000), "size": 1 })]
        {
            assert!(!cut_content(&mut other, MAX_NAME));
        }
    }
}
