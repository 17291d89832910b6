//! Tools and results as the Model Context Protocol has them, whoever serves it.

use rmcp::model::{
    CallToolResult, ContentBlock, Implementation, InitializeResult, ServerCapabilities, Tool, ToolsCapability,
};
use serde_json::Value;

use super::dialect::Definition;
use super::{Reply, ToolResult, text};
use crate::error::{Code, Error, Result};

/// The longest result that comes as structured content, too: it has every byte twice.
const LONGEST_TWICE: usize = 1 << 20;
/// The longest result as it is sent: the SDK for TypeScript takes a longer message than 10 MB for the end of the server.
const LONGEST: usize = 8 << 20;

/// What a client's model is told of all the tools together.
const INSTRUCTIONS: &str = "Tools to work in isolated Linux sandboxes. Each sandbox has files and processes of its own, which last \
                            from call to call; the first use of a name makes it. Without a name, the sandbox is `default`.";

/// What a server of tools says of itself.
pub fn server() -> InitializeResult {
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(ToolsCapability::default());
    InitializeResult::new(capabilities)
        .with_server_info(Implementation::new("koze", env!("CARGO_PKG_VERSION")))
        .with_instructions(INSTRUCTIONS)
}

/// The definitions of tools.
pub fn tools(definitions: Vec<Definition>) -> Vec<Tool> {
    let tool = |definition: Definition| {
        let schema = match definition.schema {
            Value::Object(schema) => schema,
            _ => serde_json::Map::new(),
        };
        Tool::new(definition.name, definition.description, schema)
    };
    definitions.into_iter().map(tool).collect()
}

/// The result of a tool; JSON comes as structured content, too.
pub fn result(ToolResult { content, is_error }: ToolResult) -> CallToolResult {
    let structured = (content.len() <= LONGEST_TWICE).then(|| serde_json::from_str(&content).ok()).flatten();
    as_result(content, structured, is_error)
}

/// The same where its JSON was not written yet.
pub fn reply(reply: Result<Reply>) -> CallToolResult {
    match reply {
        Ok(Reply { value, is_error }) => {
            let content = text(&value);
            let structured = (content.len() <= LONGEST_TWICE).then_some(value);
            as_result(content, structured, is_error)
        }
        Err(error) => as_result(error.to_string(), None, true),
    }
}

fn as_result(content: String, structured: Option<Value>, is_error: bool) -> CallToolResult {
    // As JSON, a byte is six at most.
    let is_short = content.len() < LONGEST / 6;
    let length =
        if is_short { 0 } else { serde_json::to_string(&content).map_or(0, |escaped| escaped.len()) };
    if length > LONGEST {
        let text = format!(
            "it is done, but its result would be {length} bytes, and {LONGEST} are the most: read a file in parts, and \
             send a command's output to a file"
        );
        return CallToolResult::error(vec![ContentBlock::text(Error::new(Code::TooLarge, text).to_string())]);
    }
    let content = vec![ContentBlock::text(content)];
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = structured.filter(Value::is_object);
    result
}
