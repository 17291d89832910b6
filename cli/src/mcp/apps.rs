//! The timeline of a session inside a chat: the extension `io.modelcontextprotocol/ui` (MCP Apps). A client that offers it gets a page
//! as a resource, and a tool whose results the page shows. Other clients get neither.

use koze_core::journal::{CallRecord, OK, PageRequest};
use koze_core::tool::{Input, mcp};
use koze_core::{Code, Error, Result};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, ClientCapabilities, ContentBlock, MetaObject, ReadResourceResult, Resource,
    ResourceContents, ResourcesCapability, ServerCapabilities, Tool, ToolAnnotations,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::supervised::Supervised;

/// The name of the tool. The page calls it, too.
pub(super) const TOOL: &str = "session_timeline";

const EXTENSION: &str = "io.modelcontextprotocol/ui";
const URI: &str = "ui://koze/timeline";
const MEDIA_TYPE: &str = "text/html;profile=mcp-app";
/// The page, which `cargo xtask ui` builds.
const PAGE: &str = include_str!("../serve/ui/built/timeline.html");
/// How many calls a result has at most.
const MAX_CALLS: usize = 50;
/// The longest result in bytes, unless its only call is longer: some clients give all of it to the model.
const MAX_BYTES: usize = 64 << 10;

/// Returns whether a client shows such pages.
pub(super) fn is_supported(client: Option<&ClientCapabilities>) -> bool {
    let extensions = client.and_then(|client| client.extensions.as_ref());
    let types = extensions.and_then(|extensions| extensions.get(EXTENSION)?.get("mimeTypes")?.as_array());
    types.is_some_and(|types| types.iter().any(|name| name == MEDIA_TYPE))
}

/// Adds what a server offers to a client that shows such pages.
pub(super) fn announce(capabilities: &mut ServerCapabilities) {
    capabilities.resources = Some(ResourcesCapability::default());
    capabilities.extensions.get_or_insert_default().insert(EXTENSION.to_owned(), Map::new());
}

/// Returns the resource with the page.
pub(super) fn resource() -> Resource {
    Resource::new(URI, "timeline")
        .with_title("Timeline of the session")
        .with_description("The tool calls of this session, with their inputs and results.")
        .with_mime_type(MEDIA_TYPE)
        .with_meta(page_meta())
}

/// Returns the page.
///
/// # Errors
/// The protocol's error for a resource that does not exist.
pub(super) fn read_resource(uri: &str) -> std::result::Result<ReadResourceResult, ErrorData> {
    if uri != URI {
        let message = format!("there is no resource `{uri}`; the only one is `{URI}`");
        return Err(ErrorData::resource_not_found(message, None));
    }
    let page = ResourceContents::text(PAGE, URI).with_mime_type(MEDIA_TYPE).with_meta(page_meta());
    Ok(ReadResourceResult::new(vec![page]))
}

/// Returns the settings of the page. It needs neither hosts nor permissions.
fn page_meta() -> MetaObject {
    to_meta(json!({ "prefersBorder": true }))
}

fn to_meta(ui: Value) -> MetaObject {
    MetaObject(Map::from_iter([("ui".to_owned(), ui)]))
}

/// Returns the definition of the tool. Models call it to open the page, and the page to refresh itself, so it is visible to both.
pub(super) fn tool() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "since": {
                "type": "integer",
                "minimum": 0,
                "description": "Return only calls after the one with this ID. The timeline refreshes itself this way. By default, the \
                                newest calls.",
            },
        },
        "additionalProperties": false,
    });
    let Value::Object(schema) = schema else { unreachable!("the schema is an object") };
    let description = "Show the user a timeline of the tool calls in this session: their times, inputs, results and changes to files. It \
                       refreshes itself, so call this once, when the user wants to see what was done. Returns how many calls it shows.";
    Tool::new(TOOL, description, schema)
        .with_title("Timeline of the session")
        .with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
        .with_meta(to_meta(json!({ "resourceUri": URI, "visibility": ["model", "app"] })))
}

/// The input of the tool.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
    since: Option<u64>,
}

/// Calls the tool. The journal does not record the call: the page makes one every few seconds.
pub(super) async fn call(backend: &Supervised, input: &Input) -> CallToolResult {
    match read_timeline(backend, input).await {
        Ok(timeline) => timeline.into_result(),
        Err(error) => mcp::reply(Err(error)).into(),
    }
}

/// Calls of the journal.
struct Timeline {
    session: String,
    /// The newest one last.
    calls: Vec<CallRecord>,
    /// The `since` of the next request.
    next: u64,
    /// Whether there are calls after `next`.
    has_more: bool,
    /// Whether the project records calls.
    is_recording: bool,
}

async fn read_timeline(backend: &Supervised, input: &Input) -> Result<Timeline> {
    let Since { since } = serde_json::from_str(input.text()).map_err(|error| {
        Error::new(Code::InvalidInput, format!("the input must be {{}} or {{\"since\": ID}}: {error}"))
    })?;
    // One more says whether there are more.
    let page = backend.read_journal(PageRequest { since, limit: MAX_CALLS as u64 + 1 }).await?;
    let (calls, has_more) = select_calls(page.calls, since.is_some());
    Ok(Timeline {
        session: backend.client().session().session().to_owned(),
        next: calls.last().map_or(since.unwrap_or(0), |call| call.id),
        calls,
        has_more,
        is_recording: backend.profiles().journal().enabled,
    })
}

/// Selects as many calls as a result may have, and returns whether later ones are left out: `from_first` selects the first ones, and
/// otherwise the last ones are selected.
fn select_calls(mut calls: Vec<CallRecord>, from_first: bool) -> (Vec<CallRecord>, bool) {
    let mut size = 0;
    let mut fits = |call: &CallRecord| {
        size += serde_json::to_vec(call).map_or(0, |json| json.len());
        size <= MAX_BYTES
    };
    let all = calls.len();
    let fitting = if from_first {
        calls.iter().take(MAX_CALLS).take_while(|call| fits(call)).count()
    } else {
        calls.iter().rev().take(MAX_CALLS).take_while(|call| fits(call)).count()
    };
    let selected = fitting.max(1).min(all);
    if from_first {
        calls.truncate(selected);
        return (calls, selected < all);
    }
    (calls.split_off(all - selected), false)
}

impl Timeline {
    /// Returns the result: the calls for the page, and a sentence for the model, which made most of them itself.
    fn into_result(self) -> CallToolResult {
        let failed = self.calls.iter().filter(|call| call.outcome != OK).count();
        let text = match self.calls.len() {
            0 if !self.is_recording => {
                "There are no calls to show, because the project records none: `enabled = false` in \
                                        `[package.metadata.koze.journal]` of Cargo.toml."
                    .to_owned()
            }
            0 => "The session has no calls to show.".to_owned(),
            shown => format!("The timeline shows calls to the user: {shown}, of which {failed} failed."),
        };
        let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
        result.structured_content = Some(json!({
            "session": self.session, "calls": self.calls, "next": self.next, "has_more": self.has_more,
            "is_recording": self.is_recording,
        }));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(sizes: &[usize]) -> Vec<CallRecord> {
        let call = |(index, size): (usize, &usize)| {
            json!({
                "id": index + 1, "time": 0, "session": "s", "tool": "shell", "input_bytes": 0, "outcome": "ok", "duration_ms": 0,
                "result": "x".repeat(*size), "result_bytes": 0,
            })
        };
        sizes.iter().enumerate().map(|entry| serde_json::from_value(call(entry)).unwrap()).collect()
    }

    fn selected(sizes: &[usize], from_first: bool) -> (Vec<u64>, bool) {
        let (calls, has_more) = select_calls(calls(sizes), from_first);
        (calls.iter().map(|call| call.id).collect(), has_more)
    }

    #[test]
    fn a_result_has_a_bounded_number_of_calls() {
        let sizes = [0; MAX_CALLS + 1];
        assert_eq!(selected(&sizes, true), ((1..=MAX_CALLS as u64).collect(), true));
        assert_eq!(selected(&sizes, false), ((2..=MAX_CALLS as u64 + 1).collect(), false));
        assert!(!selected(&sizes[1..], true).1);
        assert_eq!(selected(&[], true), (vec![], false));
    }

    #[test]
    fn a_result_has_a_bounded_size() {
        let sizes = [MAX_BYTES / 3; 4];
        assert_eq!(selected(&sizes, true), (vec![1, 2], true));
        assert_eq!(selected(&sizes, false), (vec![3, 4], false));
        // One call is never left out, or the cursor would not move.
        assert_eq!(selected(&[MAX_BYTES, 0], true), (vec![1], true));
        assert_eq!(selected(&[0, MAX_BYTES], false), (vec![2], false));
    }

    #[test]
    fn a_client_names_the_type_of_the_page() {
        let client = |settings: Value| {
            let capabilities = json!({ "extensions": { EXTENSION: settings } });
            is_supported(Some(&serde_json::from_value(capabilities).unwrap()))
        };
        assert!(client(json!({ "mimeTypes": ["text/plain", MEDIA_TYPE] })));
        for other in [
            json!({}),
            json!({ "mimeTypes": [] }),
            json!({ "mimeTypes": ["text/html"] }),
            json!({ "mimeTypes": MEDIA_TYPE }),
        ] {
            assert!(!client(other.clone()), "{other}");
        }
        assert!(!is_supported(Some(&ClientCapabilities::default())));
        assert!(!is_supported(None));
    }
}
