//! The wire format of inputs and results: JSON, followed by raw bytes.
//!
//! ```text
//!     length of the JSON, 4 bytes, big-endian ┃ JSON ┃ bytes
//! ```
//!
//! The bytes of an input are its field `bytes`. The JSON of a result lists the fields that its bytes belong to, in
//! order: `{"reply": …, "bytes": {"stdout": 5, "stderr": 0}}`.

use serde_json::{Map, Value, json};

use koze_core::contract::{Failure, Reply};

/// A result of an operation: the value with empty byte fields, and the bytes by field name.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) value: Value,
    pub(super) bytes: Vec<(&'static str, Vec<u8>)>,
}

/// Splits a frame into its JSON and its bytes.
pub(super) fn split_frame(frame: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = frame.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// Encodes a result.
pub(super) fn encode_frame(answer: Result<Answer, Failure>) -> Vec<u8> {
    let (reply, bytes) = match answer {
        Ok(Answer { value, bytes }) => (Reply { ok: true, value: Some(value), error: None }, bytes),
        Err(failure) => (Reply { ok: false, value: None, error: Some(failure) }, Vec::new()),
    };
    let lengths: Map<String, Value> =
        bytes.iter().map(|(name, bytes)| ((*name).to_owned(), json!(bytes.len()))).collect();
    let json = json!({ "reply": reply, "bytes": lengths }).to_string();
    let length = u32::try_from(json.len()).expect("a listing is shorter than 4 GiB");
    let mut frame = [&length.to_be_bytes(), json.as_bytes()].concat();
    for (_, bytes) in bytes {
        frame.extend(bytes);
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_bytes_in_frames() {
        let bytes = vec![("stdout", vec![0, 255, b'"']), ("stderr", vec![])];
        let frame = encode_frame(Ok(Answer { value: json!({ "exitCode": 0 }), bytes }));
        let (json, bytes) = split_frame(&frame).unwrap();
        let json: Value = serde_json::from_slice(json).unwrap();
        let reply = json!({ "ok": true, "value": { "exitCode": 0 } });
        assert_eq!(json, json!({ "reply": reply, "bytes": { "stdout": 3, "stderr": 0 } }));
        assert_eq!(bytes, [0, 255, b'"']);
    }

    #[test]
    fn invalid_frames() {
        for bad in [&b""[..], b"\0\0\0", b"\0\0\0\x03{}", b"\xff\xff\xff\xff{}"] {
            assert_eq!(split_frame(bad), None, "{bad:?}");
        }
        assert_eq!(split_frame(b"\0\0\0\x02{}a"), Some((&b"{}"[..], &b"a"[..])));
    }
}
