//! Decodes the messages with which clients of the Model Context Protocol call tools. The input stays text: the types of the
//! protocol library would build all of its values, and several times.

use std::borrow::Cow;

use rmcp::model::{ErrorData, JsonRpcError, RequestId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Input;
use crate::error::{Code, Error, Result};
use crate::json::{MAX_ENVELOPE, ReadError, check_memory, parse_bounded};

/// The longest ID of a request.
const MAX_ID: usize = 1 << 10;

/// A call of a tool.
#[derive(Debug)]
pub struct CallMessage {
    /// The ID of the request.
    pub id: RequestId,
    /// The tool.
    pub tool: String,
    /// The metadata of the request, if it has any.
    pub meta: Option<Map<String, Value>>,
    /// The input, or the error that the client gets as the result of the call.
    pub input: Result<Input>,
}

/// A message of a client.
#[derive(Debug)]
pub enum Message {
    /// A call of a tool, in the form in which clients write it.
    Call(CallMessage),
    /// Any other JSON whose values can be built.
    Other,
    /// A call whose arguments are not an object: the response to it.
    InvalidArguments(Box<JsonRpcError>),
    /// A text that is not JSON.
    InvalidJson(serde_json::Error),
    /// A message with a duplicate key, whose values can be built.
    DuplicateKey(Error),
    /// A message with too many values.
    TooLarge(Error),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params<'a> {
    name: String,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

impl Message {
    /// Reads a message.
    pub fn read(text: &[u8]) -> Self {
        if let Some(call) = read_call(text) {
            return call;
        }
        match parse_bounded(text, MAX_ENVELOPE) {
            Ok(_) => Message::Other,
            Err(ReadError::InvalidJson(error)) => Message::InvalidJson(error),
            // Nothing behind the key was read yet.
            Err(ReadError::DuplicateKey(error)) => match check_memory(text, MAX_ENVELOPE) {
                Ok(()) => Message::DuplicateKey(error),
                Err(ReadError::TooManyValues(_)) => too_large(),
                Err(ReadError::InvalidJson(error)) => Message::InvalidJson(error),
                Err(ReadError::DuplicateKey(_)) => Message::Other,
            },
            Err(ReadError::TooManyValues(_)) => too_large(),
        }
    }
}

/// Reads a call. Returns `None` for any other message.
fn read_call(text: &[u8]) -> Option<Message> {
    let Envelope { jsonrpc, id, method, params } = serde_json::from_slice(text).ok()?;
    if jsonrpc != "2.0" || method != "tools/call" || id.get().len() > MAX_ID {
        return None;
    }
    let id = serde_json::from_str(id.get()).ok()?;
    let Params { name: tool, arguments, meta } = params;
    let mut input = match arguments.map(RawValue::get) {
        Some(arguments) if !arguments.starts_with('{') => {
            let error = ErrorData::invalid_params(describe_arguments(arguments), None);
            return Some(Message::InvalidArguments(JsonRpcError::new(Some(id), error).into()));
        }
        Some(arguments) => into_client_result(Input::read(arguments.as_bytes()))?,
        None => Ok(Map::new().into()),
    };
    let meta = match meta.map(|meta| parse_bounded(meta.get().as_bytes(), MAX_ENVELOPE)) {
        Some(meta) => match into_client_result(meta)? {
            Ok(Value::Object(meta)) => Some(meta),
            Ok(_) => return None,
            Err(error) => {
                input = Err(error);
                None
            }
        },
        None => None,
    };
    Some(Message::Call(CallMessage { id, tool, meta, input }))
}

/// Returns what is wrong with arguments that are not an object.
fn describe_arguments(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'"') => {
            "`arguments` is a string: send the object itself, such as {\"path\": \"a\"}, not its JSON as text"
        }
        Some(b'[') => "`arguments` is an array: send an object with the tool's parameters by name",
        _ => "`arguments` must be an object with the tool's parameters by name",
    }
}

fn too_large() -> Message {
    let message = format!("outside of the input of a tool, a message may have at most {MAX_ENVELOPE} values");
    Message::TooLarge(Error::new(Code::TooLarge, message))
}

/// Returns what was read, or the error for the client. Returns `None` if the text is not JSON.
fn into_client_result<T>(read: std::result::Result<T, ReadError>) -> Option<Result<T>> {
    match read {
        Ok(value) => Some(Ok(value)),
        Err(error) => error.into_tool_error().ok().map(Err),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(params: &str) -> Message {
        Message::read(
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#).as_bytes(),
        )
    }

    fn call(params: &str) -> CallMessage {
        let Message::Call(call) = message(params) else { panic!("{params}") };
        call
    }

    #[test]
    fn calls_keep_their_input_as_text() {
        let read = call(r#"{"name":"shell","arguments":{"a": [1, {}]},"_meta":{"progressToken":7}}"#);
        assert_eq!((read.id, read.tool.as_str()), (RequestId::Number(7), "shell"));
        assert_eq!(read.input.unwrap().text(), r#"{"a":[1,{}]}"#);
        assert_eq!(read.meta.unwrap()["progressToken"], 7);
        assert_eq!(call(r#"{"name":"shell"}"#).input.unwrap().text(), "{}");
    }

    #[test]
    fn errors_of_the_input_are_those_of_the_call() {
        let code = |params: &str| call(params).input.unwrap_err().code;
        let many = format!("[{}0]", "[0],".repeat(1 << 20));
        assert_eq!(code(r#"{"name":"shell","arguments":{"a":1,"a":2}}"#), Code::InvalidInput);
        assert_eq!(code(r#"{"name":"shell","_meta":{"a":1,"a":2}}"#), Code::InvalidInput);
        assert_eq!(code(&format!(r#"{{"name":"shell","arguments":{{"a":{many}}}}}"#)), Code::TooLarge);
        assert_eq!(code(&format!(r#"{{"name":"shell","_meta":{{"a":{many}}}}}"#)), Code::TooLarge);
    }

    #[test]
    fn other_messages_are_small() {
        let many = format!("[{}0]", "[0],".repeat(1 << 20));
        for params in [
            format!(r#"{{"name":"shell","x":{many}}}"#),
            format!(r#"{{"name":"shell","name":"shell","arguments":{{"a":{many}}}}}"#),
        ] {
            assert!(
                matches!(message(&params), Message::TooLarge(_) | Message::DuplicateKey(_)),
                "{}",
                &params[..60]
            );
        }
        assert!(matches!(message(r#"{"name":"shell","x":1}"#), Message::Other));
        for params in ["{", r#"{"name":"\ud800"}"#] {
            assert!(matches!(message(params), Message::InvalidJson(_)), "{params}");
        }
    }

    #[test]
    fn arguments_are_an_object() {
        let many = format!("[{}0]", "[0],".repeat(1 << 20));
        for (arguments, says) in
            [(r#""{\"a\":1}""#, "a string"), (&many, "an array"), ("1", "must be an object")]
        {
            let read = message(&format!(r#"{{"name":"shell","arguments":{arguments}}}"#));
            let Message::InvalidArguments(refused) = read else { panic!("{read:?}") };
            assert_eq!(refused.id, Some(RequestId::Number(7)));
            assert!(refused.error.message.contains(says), "{refused:?}");
        }
        // Clients that have none may send null.
        assert_eq!(call(r#"{"name":"shell","arguments":null}"#).input.unwrap().text(), "{}");
    }
}
