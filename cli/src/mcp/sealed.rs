//! Passes the input of tool calls through the protocol library as text. The library would build all of its values, and use the
//! last of several values with the same key.

use koze_core::tool::Input;
use koze_core::tool::message::{CallMessage, Message};
use rmcp::model::{ErrorData, JsonRpcError};
use serde_json::{Map, Value, json};

/// The keys of an input as text, and of the error for an input that is not valid. A client can send neither: its input is text.
const INPUT: &str = "koze:input";
const ERROR: &str = "koze:error";

/// Returns the arguments that stand for an input, or for the error of the call.
pub(crate) fn seal(input: koze_core::Result<Input>) -> Map<String, Value> {
    let (key, value) = match input {
        Ok(input) => (INPUT, Value::from(input.text())),
        Err(error) => (ERROR, json!(error)),
    };
    Map::from_iter([(key.to_owned(), value)])
}

/// Returns the input, or the error of the call.
pub(crate) fn open(mut arguments: Map<String, Value>) -> koze_core::Result<Input> {
    match (arguments.remove(INPUT), arguments.remove(ERROR)) {
        (Some(Value::String(text)), _) => {
            Input::read(text.as_bytes()).map_err(|error| match error.into_tool_error() {
                Ok(error) => error,
                Err(error) => koze_core::Error::new(koze_core::Code::InvalidInput, error.to_string()),
            })
        }
        (_, Some(error)) => Err(serde_json::from_value(error).unwrap_or_else(|error| {
            koze_core::Error::new(
                koze_core::Code::Internal,
                format!("the error of a call cannot be read: {error}"),
            )
        })),
        _ => Ok(arguments.into()),
    }
}

/// Why a message is refused.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It has too many values.
    TooLarge(koze_core::Error),
    /// The protocol has an error for it.
    Protocol(Box<JsonRpcError>),
}

/// Returns the message to parse in place of a message, or `None` for a message that needs no replacement.
///
/// # Errors
/// See [`Refused`].
pub(crate) fn sealed(message: &[u8]) -> Result<Option<Vec<u8>>, Refused> {
    match Message::read(message) {
        Message::Call(CallMessage { id, tool, meta, input }) => {
            let mut params = json!({ "name": tool, "arguments": seal(input) });
            if let Some(meta) = meta {
                params["_meta"] = meta.into();
            }
            let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
            Ok(Some(call.to_string().into_bytes()))
        }
        Message::DuplicateKey(error) => Ok(with_error(message, error)),
        Message::Other => Ok(None),
        Message::InvalidArguments(error) => Err(Refused::Protocol(error)),
        Message::InvalidJson(error) => {
            let error = ErrorData::parse_error(format!("the body is not JSON: {error}"), None);
            Err(Refused::Protocol(JsonRpcError::new(None, error).into()))
        }
        Message::TooLarge(error) => Err(Refused::TooLarge(error)),
    }
}

/// Returns the message to parse in place of a tool call with a duplicate key outside of its input, or `None` for other messages.
pub(crate) fn with_error(message: &[u8], error: koze_core::Error) -> Option<Vec<u8>> {
    let mut message: Value = serde_json::from_slice(message).ok()?;
    if message.get("method")? != "tools/call" {
        return None;
    }
    message.get_mut("params")?.as_object_mut()?.insert("arguments".into(), seal(Err(error)).into());
    serde_json::to_vec(&message).ok()
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;

    use super::*;

    const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shell","arguments":{"command":"a","command":"b"}}}"#;

    fn arguments(message: &str) -> koze_core::Result<Input> {
        let sealed: Value = serde_json::from_slice(&sealed(message.as_bytes()).unwrap().unwrap()).unwrap();
        assert_eq!((&sealed["id"], &sealed["params"]["name"]), (&json!(1), &json!("shell")));
        open(sealed["params"]["arguments"].as_object().unwrap().clone())
    }

    #[test]
    fn a_call_with_a_duplicate_key_gets_the_error() {
        for message in [CALL.to_owned(), CALL.replace("\"shell\",", "\"shell\",\"arguments\":{},")] {
            let error = arguments(&message).unwrap_err().to_string();
            assert!(error.starts_with("invalid_input: duplicate key `"), "{error}");
        }
    }

    #[test]
    fn an_input_is_what_the_client_has_sent() {
        let input = r#"{"koze:error":{"code":"internal","message":""},"koze:input":"{}","a":[1.5,"\u0007"]}"#;
        let message = CALL.replace(r#"{"command":"a","command":"b"}"#, input);
        assert_eq!(arguments(&message).unwrap().text(), input);
        assert_eq!(arguments(&message.replace(input, "{}")).unwrap().text(), "{}");
        // As a client that the protocol library decodes itself.
        assert_eq!(open(json!({ "a": 1 }).as_object().unwrap().clone()).unwrap().text(), r#"{"a":1}"#);
    }

    #[test]
    fn other_messages_are_unchanged() {
        let ping = CALL.replace("tools/call", "ping");
        assert_eq!(sealed(ping.as_bytes()).unwrap(), None);
        for text in ["", "{"] {
            let Err(Refused::Protocol(refused)) = sealed(text.as_bytes()) else { panic!("{text}") };
            assert_eq!(refused.error.code, ErrorCode::PARSE_ERROR);
        }
        let many =
            CALL.replace("tools/call", "ping").replace("\"b\"", &format!("[{}0]", "[0],".repeat(100_000)));
        let Err(Refused::TooLarge(error)) = sealed(many.as_bytes()) else { panic!("it is too large") };
        assert!(error.message.contains("at most 16384 values"), "{error}");
    }
}
