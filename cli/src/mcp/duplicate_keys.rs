//! Detects tool calls whose input has a duplicate key. The protocol library would silently use the last value, so such
//! calls are found before it parses the message, and their input is replaced by an error that the server reports.

use koze_core::tool::{self, ReadError};
use serde_json::{Map, Value, json};

/// The key of the error that replaces an input. No tool has such a key.
const ERROR_KEY: &str = "koze:twice";

/// Returns the message to parse in place of a tool call with a duplicate key, or `None` for other messages.
pub(crate) fn with_error(message: &[u8]) -> Option<Vec<u8>> {
    let Err(ReadError::DuplicateKey(error)) = tool::read(message) else { return None };
    let mut message: Value = serde_json::from_slice(message).ok()?;
    if message.get("method")? != "tools/call" {
        return None;
    }
    message.get_mut("params")?.as_object_mut()?.insert("arguments".into(), json!({ ERROR_KEY: error }));
    serde_json::to_vec(&message).ok()
}

/// Returns the error if one replaced the input.
pub(crate) fn error_in(input: &Map<String, Value>) -> Option<koze_core::Error> {
    serde_json::from_value(input.get(ERROR_KEY)?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shell","arguments":{"command":"a","command":"b"}}}"#;

    #[test]
    fn a_call_with_a_duplicate_key_gets_the_error() {
        let marked: Value = serde_json::from_slice(&with_error(TWO.as_bytes()).unwrap()).unwrap();
        assert_eq!((&marked["id"], &marked["params"]["name"]), (&json!(1), &json!("shell")));
        let error = error_in(marked["params"]["arguments"].as_object().unwrap()).unwrap();
        assert!(
            error.to_string().starts_with("invalid_input: duplicate key `command` in an object"),
            "{error}"
        );
        assert!(error_in(json!({ "command": "a" }).as_object().unwrap()).is_none());
    }

    #[test]
    fn other_messages_are_unchanged() {
        for text in [
            TWO.replace("\"command\":\"b\"", "\"x\":1"),
            TWO.replace("tools/call", "ping"),
            "{".to_owned(),
            String::new(),
        ] {
            assert_eq!(with_error(text.as_bytes()), None, "{text}");
        }
    }
}
