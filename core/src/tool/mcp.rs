//! Tools and results in the format of the Model Context Protocol.

use rmcp::model::{
    CallToolResult, ContentBlock, ErrorData, Implementation, InitializeResult, ServerCapabilities, Tool,
    ToolsCapability,
};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::agent::cut_content;
use super::dialect::Definition;
use super::hints::tool_hints;
use super::{Content, Family, PICTURES, Reply, to_json_text};
use crate::error::{Code, Error, Result};

/// The longest result that is also sent as structured content, which sends every byte twice.
const MAX_STRUCTURED: usize = 1 << 20;
/// The longest result: the TypeScript SDK treats a message of more than 10 MB as the end of the server.
const MAX_RESULT: usize = 8 << 20;

/// Returns how a server introduces itself: with the text of [`describe`](super::instructions::describe).
pub fn server(families: &[Family], instructions: String) -> InitializeResult {
    let mut capabilities = ServerCapabilities::default();
    let mut tools = ToolsCapability::default();
    tools.list_changed = families.contains(&Family::Script).then_some(true);
    capabilities.tools = Some(tools);
    InitializeResult::new(capabilities)
        .with_server_info(Implementation::new("koze", env!("CARGO_PKG_VERSION")))
        .with_instructions(instructions)
}

/// Returns the definitions of tools, with hints about their effects.
pub fn tools(definitions: Vec<Definition>) -> Vec<Tool> {
    let with_hints = |tool: Tool| match tool_hints(&tool.name) {
        Some(hints) => tool.with_annotations(hints),
        None => tool,
    };
    created_tools(definitions).into_iter().map(with_hints).collect()
}

/// Returns the definitions of tools that an agent has created: nobody knows what they do.
pub fn created_tools(definitions: Vec<Definition>) -> Vec<Tool> {
    let tool = |definition: Definition| {
        let schema = match definition.schema {
            Value::Object(schema) => schema,
            _ => serde_json::Map::new(),
        };
        Tool::new(definition.name, definition.description, schema)
    };
    definitions.into_iter().map(tool).collect()
}

/// The result of a tool. Its text is the JSON of its structured content, so a large one is converted to JSON only once: to
/// serialize the result copies that JSON.
#[derive(Debug)]
pub struct Called {
    /// The result, without its structured content.
    pub result: CallToolResult,
    /// The structured content, and its JSON.
    structured: Option<(Value, Box<RawValue>)>,
}

impl Serialize for Called {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Sent<'a> {
            #[serde(flatten)]
            result: &'a CallToolResult,
            #[serde(skip_serializing_if = "Option::is_none")]
            structured_content: Option<&'a RawValue>,
        }
        let structured_content = self.structured.as_ref().map(|(_, json)| &**json);
        Sent { result: &self.result, structured_content }.serialize(serializer)
    }
}

impl From<Called> for CallToolResult {
    fn from(Called { mut result, structured }: Called) -> Self {
        result.structured_content = structured.map(|(value, _)| value);
        result
    }
}

/// Returns the result of a call.
///
/// # Errors
/// The protocol's error for a tool that does not exist. Every other error is a result, so that the model reads it.
pub fn called(reply: Result<Reply>) -> std::result::Result<Called, ErrorData> {
    match reply {
        Err(error) if error.code == Code::UnknownTool => {
            Err(ErrorData::invalid_params(error.to_string(), None))
        }
        reply => Ok(self::reply(reply)),
    }
}

/// Returns the result of a tool. JSON is also sent as structured content.
pub fn reply(reply: Result<Reply>) -> Called {
    match reply {
        Ok(Reply { content: Content::Json(value), is_error }) => as_json(value, is_error),
        Ok(Reply { content: Content::Text(text), is_error }) => as_text(text, is_error),
        Ok(Reply { content: Content::Picture(value), is_error }) => as_picture(value, is_error),
        Ok(Reply { content: Content::Outputs(value), is_error }) => as_outputs(value, is_error),
        Err(error) => as_text(error.to_string(), true),
    }
}

/// A value, and its text.
fn as_json(mut value: Value, is_error: bool) -> Called {
    let json = to_raw_json(&value);
    if json_len(json.get()) > MAX_RESULT && cut_content(&mut value, MAX_RESULT) {
        return as_text(to_json_text(&value), is_error);
    }
    let mut called = as_text(json.get().to_owned(), is_error);
    // A text as short as this one is never longer than `MAX_RESULT` when it is sent.
    let is_short = json.get().len() <= MAX_STRUCTURED;
    called.structured = (is_short && value.is_object()).then_some((value, json));
    called
}

/// A picture, and a text with the other fields.
fn as_picture(mut value: Value, is_error: bool) -> Called {
    let image = value.as_object_mut().and_then(|fields| fields.remove("image"));
    let mut called = as_json(value, is_error);
    if let Some(Value::String(image)) = image {
        called.result.content.insert(0, ContentBlock::image(image, "image/png"));
    }
    called
}

/// A text with the outputs of code, and its pictures, to which the text refers by their place in the list, from 1.
fn as_outputs(mut value: Value, is_error: bool) -> Called {
    let outputs =
        value.get_mut("outputs").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
    let mut pictures = Vec::new();
    let mut shown = Vec::with_capacity(outputs.len());
    let mut rest = outputs.into_iter().peekable();
    while let Some(mut output) = rest.next() {
        let mime = output["mime"].as_str().unwrap_or_default().to_owned();
        // What follows is the text of the same value.
        let has_text =
            rest.peek().is_some_and(|next| next["type"] == "result" || next["mime"] == "text/plain");
        if mime == "text/html" && has_text {
            continue;
        }
        if PICTURES.contains(&mime.as_str())
            && let Some(fields) = output.as_object_mut()
            && let Some(Value::String(data)) = fields.remove("data")
        {
            pictures.push(ContentBlock::image(data, mime));
            fields.insert("picture".to_owned(), pictures.len().into());
        }
        shown.push(output);
    }
    value["outputs"] = shown.into();
    let mut called = as_json(value, is_error);
    called.result.content.extend(pictures);
    called
}

/// The JSON of a value.
fn to_raw_json(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("a value's keys are texts")
}

/// The length of a text as a JSON string; for a short text, a lower bound.
fn json_len(content: &str) -> usize {
    // As JSON, a byte takes at most six.
    let is_short = content.len() < MAX_RESULT / 6;
    if is_short { content.len() } else { serde_json::to_string(content).map_or(0, |escaped| escaped.len()) }
}

fn as_text(content: String, is_error: bool) -> Called {
    let length = json_len(&content);
    if length > MAX_RESULT {
        let text = format!(
            "the call succeeded, but its result of {length} bytes exceeds the maximum of {MAX_RESULT}: redirect the command's \
             output to a file and read it in parts"
        );
        return as_text(Error::new(Code::TooLarge, text).to_string(), true);
    }
    let content = vec![ContentBlock::text(content)];
    let result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    Called { result, structured: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::agent::to_part;

    fn sent_by(replied: Result<Reply>) -> CallToolResult {
        let called = reply(replied);
        let sent = serde_json::to_value(&called).unwrap();
        let result = CallToolResult::from(called);
        assert_eq!(sent, serde_json::to_value(&result).unwrap());
        result
    }

    fn sent(result: &CallToolResult) -> (usize, Value) {
        let text = &result.content[0].as_text().expect("a text").text;
        (serde_json::to_string(text).unwrap().len(), serde_json::from_str(text).unwrap_or(Value::Null))
    }

    #[test]
    fn a_file_that_is_too_long_is_cut() {
        let file = vec![0; 2 << 20];
        let value = serde_json::to_value(to_part(file, 5, 5 + (2 << 20))).unwrap();
        let told = sent_by(Reply::ok(value));
        let (length, cut) = sent(&told);
        assert!(length <= MAX_RESULT && length > MAX_RESULT - 1024, "{length}");
        let read = cut["content"].as_str().unwrap().len();
        assert_eq!((&cut["truncated"], &cut["next_offset"]), (&json!(true), &json!(5 + read)));
    }

    #[test]
    fn other_results_are_not_cut() {
        let value = json!({ "stdout": "\0".repeat(MAX_RESULT / 6), "size": 1, "exit_code": 0 });
        let told = sent_by(Reply::ok(value));
        assert_eq!(told.is_error, Some(true));
        let short = json!({ "content": "a", "size": 1 });
        assert_eq!(sent_by(Reply::ok(&short)).structured_content, Some(short));
    }

    #[test]
    fn plain_text_is_sent_as_it_is() {
        let told = sent_by(Ok(Reply::text(r#"{"a":1}"#)));
        assert_eq!(told.content[0].as_text().unwrap().text, r#"{"a":1}"#);
        assert_eq!((told.structured_content, told.is_error), (None, Some(false)));
    }

    #[test]
    fn a_picture_is_sent_as_one() {
        let value = json!({ "image": "AAAA", "width": 1, "height": 2 });
        let told = sent_by(Ok(Reply { content: Content::Picture(value), is_error: false }));
        let image = told.content[0].as_image().unwrap();
        assert_eq!((image.data.as_str(), image.mime_type.as_str()), ("AAAA", "image/png"));
        assert_eq!(told.content[1].as_text().unwrap().text, r#"{"height":2,"width":1}"#);
        assert_eq!(told.structured_content, Some(json!({ "width": 1, "height": 2 })));
    }

    #[test]
    fn pictures_among_outputs_are_sent_as_such() {
        let outputs = json!([
            { "type": "stdout", "text": "a" },
            { "type": "display", "mime": "image/png", "data": "AAAA" },
            { "type": "display", "mime": "text/plain", "data": "<Figure>" },
            { "type": "display", "mime": "text/html", "data": "<b>" },
            { "type": "display", "mime": "image/jpeg", "data": "BBBB" },
            { "type": "display", "mime": "text/html", "data": "<table>" },
            { "type": "result", "text": "table" },
        ]);
        let value = json!({ "exit_code": 0, "outputs": outputs });
        let told = sent_by(Ok(Reply { content: Content::Outputs(value), is_error: false }));
        let expected = json!([
            { "type": "stdout", "text": "a" },
            { "type": "display", "mime": "image/png", "picture": 1 },
            { "type": "display", "mime": "text/plain", "data": "<Figure>" },
            { "type": "display", "mime": "text/html", "data": "<b>" },
            { "type": "display", "mime": "image/jpeg", "picture": 2 },
            { "type": "result", "text": "table" },
        ]);
        assert_eq!(sent(&told).1["outputs"], expected);
        let pictures: Vec<_> = told.content[1..].iter().map(|block| block.as_image().unwrap()).collect();
        assert_eq!(
            pictures.iter().map(|picture| picture.data.as_str()).collect::<Vec<_>>(),
            ["AAAA", "BBBB"]
        );
        assert_eq!(pictures[1].mime_type, "image/jpeg");
    }
}
