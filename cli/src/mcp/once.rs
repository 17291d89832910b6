//! Calls of tools whose input has a key twice. Who reads messages for the protocol takes the last of the two and tells
//! nobody, so such a call is found before: in place of its input stands what is wrong with it, and the server says so.

use koze_core::tool::{self, Unread};
use serde_json::{Map, Value, json};

/// No tool takes this: the error of an input in place of it.
const TWICE: &str = "koze:twice";

/// The message to read in place of one that calls a tool with a key twice; nothing where that is not so.
pub(crate) fn marked(message: &[u8]) -> Option<Vec<u8>> {
    let Err(Unread::Twice(error)) = tool::read(message) else { return None };
    let mut message: Value = serde_json::from_slice(message).ok()?;
    if message.get("method")? != "tools/call" {
        return None;
    }
    message.get_mut("params")?.as_object_mut()?.insert("arguments".into(), json!({ TWICE: error }));
    serde_json::to_vec(&message).ok()
}

/// What is wrong with an input, where that stands in its place.
pub(crate) fn mark(input: &Map<String, Value>) -> Option<koze_core::Error> {
    serde_json::from_value(input.get(TWICE)?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shell","arguments":{"command":"a","command":"b"}}}"#;

    #[test]
    fn a_call_with_a_key_twice_is_marked() {
        let marked: Value = serde_json::from_slice(&marked(TWO.as_bytes()).unwrap()).unwrap();
        assert_eq!((&marked["id"], &marked["params"]["name"]), (&json!(1), &json!("shell")));
        let error = mark(marked["params"]["arguments"].as_object().unwrap()).unwrap();
        assert!(
            error.to_string().starts_with("invalid_input: duplicate key `command` in an object"),
            "{error}"
        );
        assert!(mark(json!({ "command": "a" }).as_object().unwrap()).is_none());
    }

    #[test]
    fn all_else_is_as_it_was() {
        for text in [
            TWO.replace("\"command\":\"b\"", "\"x\":1"),
            TWO.replace("tools/call", "ping"),
            "{".to_owned(),
            String::new(),
        ] {
            assert_eq!(marked(text.as_bytes()), None, "{text}");
        }
    }
}
