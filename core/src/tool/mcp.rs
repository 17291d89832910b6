//! Tools and results in the format of the Model Context Protocol.

use rmcp::model::{
    CallToolResult, ContentBlock, Implementation, InitializeResult, ServerCapabilities, Tool, ToolsCapability,
};
use serde_json::Value;

use super::agent::cut;
use super::dialect::Definition;
use super::{Content, Family, Reply, text};
use crate::error::{Code, Error, Result};

/// The longest result that is also sent as structured content, which sends every byte twice.
const MAX_STRUCTURED: usize = 1 << 20;
/// The longest result: the TypeScript SDK treats a message of more than 10 MB as the end of the server.
const MAX_RESULT: usize = 8 << 20;

/// Returns the part of the instructions for a client's model that is about a family.
fn instructions(family: Family) -> &'static str {
    match family {
        Family::Agent => {
            "Tools for working in isolated Linux sandboxes. Each sandbox has its own files and processes, which persist \
             between calls. A sandbox is created when its name is first used; the default name is `default`."
        }
        Family::Thread => {
            "Tools for working in the isolated Linux sandbox of this conversation, which the first call creates. Its files \
             persist between calls. Commands start in `/mnt/user-data/workspace`. The user's files are in \
             `/mnt/user-data/uploads`; write results for the user to `/mnt/user-data/outputs`. File tools accept \
             absolute paths below `/mnt/user-data` only."
        }
        Family::Workspace => {
            "Tools for working in workspaces. A workspace is a directory of an isolated Linux sandbox, and its name is part \
             of the names of its tools: `workspace__NAME__OPERATION`. The first call opens it. Relative paths start at \
             its directory, and its files persist between calls."
        }
        Family::Script => {
            "Tools for running JavaScript in an isolate: `run_sandbox_code`. Its state and libraries persist between runs, and \
             `create_tool` adds tools of your own, which can be called at once."
        }
        _ => "Tools for working in isolated Linux sandboxes.",
    }
}

/// What happens to the files of a sandbox when it goes to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// They are kept, as in local sandboxes.
    Kept,
    /// They are deleted with its container.
    Lost,
}

/// Returns how a server introduces itself and the sandboxes of its families.
pub fn server(families: &[Family], files: Files) -> InitializeResult {
    let asleep = match files {
        Files::Kept => "An idle sandbox goes to sleep: its processes end, and its files are kept.",
        Files::Lost => {
            "An idle sandbox goes to sleep: its processes end, and its files are deleted. Store results that must last \
             somewhere else."
        }
    };
    let asleep = families.iter().any(|family| *family != Family::Script).then_some(asleep);
    let texts: Vec<&str> = families.iter().map(|family| instructions(*family)).chain(asleep).collect();
    let mut capabilities = ServerCapabilities::default();
    let mut tools = ToolsCapability::default();
    tools.list_changed = families.contains(&Family::Script).then_some(true);
    capabilities.tools = Some(tools);
    InitializeResult::new(capabilities)
        .with_server_info(Implementation::new("koze", env!("CARGO_PKG_VERSION")))
        .with_instructions(texts.join(" "))
}

/// Returns the definitions of tools.
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

/// Returns the result of a tool. JSON is also sent as structured content.
pub fn reply(reply: Result<Reply>) -> CallToolResult {
    match reply {
        Ok(Reply { content: Content::Json(value), is_error }) => as_result(text(&value), value, is_error),
        Ok(Reply { content: Content::Text(text), is_error }) => as_text(text, None, is_error),
        Ok(Reply { content: Content::Picture(value), is_error }) => as_picture(value, is_error),
        Err(error) => as_text(error.to_string(), None, true),
    }
}

/// A value, and its text.
fn as_result(content: String, mut value: Value, is_error: bool) -> CallToolResult {
    if length(&content) > MAX_RESULT && cut(&mut value, MAX_RESULT) {
        return as_text(text(&value), None, is_error);
    }
    let structured = (content.len() <= MAX_STRUCTURED).then_some(value);
    as_text(content, structured, is_error)
}

/// A picture, and a text with the other fields.
fn as_picture(mut value: Value, is_error: bool) -> CallToolResult {
    let image = value.as_object_mut().and_then(|fields| fields.remove("image"));
    let mut result = as_text(text(&value), Some(value), is_error);
    if let Some(Value::String(image)) = image {
        result.content.insert(0, ContentBlock::image(image, "image/png"));
    }
    result
}

/// The length of a text as a JSON string; for a short text, a lower bound.
fn length(content: &str) -> usize {
    // As JSON, a byte takes at most six.
    let is_short = content.len() < MAX_RESULT / 6;
    if is_short { content.len() } else { serde_json::to_string(content).map_or(0, |escaped| escaped.len()) }
}

fn as_text(content: String, structured: Option<Value>, is_error: bool) -> CallToolResult {
    let length = length(&content);
    if length > MAX_RESULT {
        let text = format!(
            "the call succeeded, but its result of {length} bytes exceeds the maximum of {MAX_RESULT}: redirect the command's \
             output to a file and read it in parts"
        );
        return CallToolResult::error(vec![ContentBlock::text(Error::new(Code::TooLarge, text).to_string())]);
    }
    let content = vec![ContentBlock::text(content)];
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = structured.filter(Value::is_object);
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::agent::part;

    fn sent(result: &CallToolResult) -> (usize, Value) {
        let text = &result.content[0].as_text().expect("a text").text;
        (serde_json::to_string(text).unwrap().len(), serde_json::from_str(text).unwrap_or(Value::Null))
    }

    #[test]
    fn a_file_that_is_too_long_is_cut() {
        let file = vec![0; 2 << 20];
        let value = serde_json::to_value(part(file, 5, 5 + (2 << 20))).unwrap();
        let told = reply(Reply::ok(value));
        let (length, cut) = sent(&told);
        assert!(length <= MAX_RESULT && length > MAX_RESULT - 1024, "{length}");
        let read = cut["content"].as_str().unwrap().len();
        assert_eq!((&cut["truncated"], &cut["next_offset"]), (&json!(true), &json!(5 + read)));
    }

    #[test]
    fn other_results_are_not_cut() {
        let value = json!({ "stdout": "\0".repeat(MAX_RESULT / 6), "size": 1, "exit_code": 0 });
        let told = reply(Reply::ok(value));
        assert_eq!(told.is_error, Some(true));
        let short = json!({ "content": "a", "size": 1 });
        assert_eq!(reply(Reply::ok(&short)).structured_content, Some(short));
    }

    #[test]
    fn plain_text_is_sent_as_it_is() {
        let told = reply(Ok(Reply::text(r#"{"a":1}"#)));
        assert_eq!(told.content[0].as_text().unwrap().text, r#"{"a":1}"#);
        assert_eq!((told.structured_content, told.is_error), (None, Some(false)));
    }

    #[test]
    fn a_picture_is_sent_as_one() {
        let value = json!({ "image": "AAAA", "width": 1, "height": 2 });
        let told = reply(Ok(Reply { content: Content::Picture(value), is_error: false }));
        let image = told.content[0].as_image().unwrap();
        assert_eq!((image.data.as_str(), image.mime_type.as_str()), ("AAAA", "image/png"));
        assert_eq!(told.content[1].as_text().unwrap().text, r#"{"height":2,"width":1}"#);
        assert_eq!(told.structured_content, Some(json!({ "width": 1, "height": 2 })));
    }

    #[test]
    fn the_fate_of_files_is_documented() {
        let instructions = |files| server(&[Family::Agent], files).instructions.unwrap();
        assert!(instructions(Files::Kept).contains("its files are kept"));
        assert!(instructions(Files::Lost).contains("its files are deleted"));
    }

    #[test]
    fn instructions_describe_the_families_served() {
        let instructions = |families: &[Family]| server(families, Files::Kept).instructions.unwrap();
        let marks = [
            (Family::Agent, "the default name is `default`"),
            (Family::Thread, "/mnt/user-data"),
            (Family::Workspace, "workspace__NAME__"),
            (Family::Script, "run_sandbox_code"),
        ];
        for family in Family::ALL {
            assert!(marks.iter().any(|(known, _)| *known == family), "{family} has no instructions");
            for (other, mark) in marks {
                assert_eq!(instructions(&[family]).contains(mark), family == other, "{family}: {mark}");
            }
        }
        let both = instructions(&[Family::Agent, Family::Workspace]);
        assert!(both.contains(marks[0].1) && both.contains(marks[2].1), "{both}");
    }
}
