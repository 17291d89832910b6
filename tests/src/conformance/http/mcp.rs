//! Runs the cases against a Worker over the Model Context Protocol, by hand.

use serde_json::{Value, json};

use super::Http;
use crate::conformance::{Host, ToolResult};

/// A running Worker, as a server of the protocol.
#[derive(Debug)]
pub struct Mcp(pub Http);

/// Puts the pictures that code has shown back where the text refers to them.
fn with_pictures(text: String, result: &Value) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(&text) else { return text };
    let Some(outputs) = value["outputs"].as_array_mut() else { return text };
    for output in outputs {
        let Some(number) = output.as_object_mut().and_then(|fields| fields.remove("picture")) else {
            continue;
        };
        let number = usize::try_from(number.as_u64().expect("a number")).expect("a small number");
        let picture = &result["content"][number];
        assert_eq!((&picture["type"], &picture["mimeType"]), (&json!("image"), &output["mime"]), "{text}");
        output["data"] = picture["data"].clone();
    }
    value.to_string()
}

impl Host for Mcp {
    fn call(&self, session: &str, tool: &str, input: Value) -> ToolResult {
        self.call_text(session, tool, &input.to_string())
    }

    fn call_text_of(&self, toolset: &str, session: &str, tool: &str, input: &str) -> ToolResult {
        let Mcp(http) = self;
        // The input may be any JSON text.
        let name = json!(tool);
        let params = format!("{{\"name\":{name},\"arguments\":{input}}}");
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{params}}}");
        let request = ureq::http::Request::post(format!("{}/mcp{}", http.url, http.query(toolset)))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("koze-session", format!("{}-{session}", http.run));
        let (status, body) = http
            .send(request, body.into_bytes())
            .unwrap_or_else(|error| panic!("{tool} over the protocol: {error}"));
        assert_eq!(status, 200, "{tool}: {body}");
        // A call that changes the list of tools is answered with events, of which the response is the last.
        let last = body.rsplit_once("\ndata: ").map_or(&*body, |(_, last)| last);
        let answer: Value = serde_json::from_str(last).expect("the answer is JSON");
        let result = &answer["result"];
        // The protocol has errors of its own for unknown tools, and for arguments that are not an object.
        if answer["error"]["code"] == -32602 {
            let message = answer["error"]["message"].as_str().expect("text");
            let code = if message.starts_with("unknown_tool: ") { "" } else { "invalid_input: " };
            return ToolResult { content: format!("{code}{message}"), is_error: true };
        }
        if result["content"][0]["type"] == "image" {
            let mut picture = result["structuredContent"].clone();
            picture["image"] = result["content"][0]["data"].clone();
            return ToolResult { content: picture.to_string(), is_error: false };
        }
        let content = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned();
        if let Some(structured) = result.get("structuredContent") {
            let text: Value = serde_json::from_str(&content).expect("its text is the same JSON");
            assert_eq!(*structured, text, "{tool}");
        }
        ToolResult { content: with_pictures(content, result), is_error: result["isError"] == true }
    }

    fn destroy(&self, session: &str, sandbox: &str) -> Result<(), String> {
        self.0.destroy(session, sandbox)
    }

    fn secrets(&self) -> Vec<String> {
        self.0.secrets()
    }
}
