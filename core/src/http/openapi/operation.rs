//! A route as an operation of the document.

use schemars::JsonSchema;
use schemars::generate::SchemaGenerator;
use serde_json::{Map, Value, json};

/// The bodies of requests and responses.
pub(super) enum Content {
    /// JSON with a schema.
    Json(Value),
    /// Any bytes.
    Bytes,
    /// Server-sent events.
    Events,
    None,
}

impl Content {
    fn to_value(&self) -> Option<Value> {
        Some(match self {
            Content::Json(schema) => json!({ "application/json": { "schema": schema } }),
            Content::Bytes => json!({ "application/octet-stream": {} }),
            Content::Events => json!({ "text/event-stream": { "schema": { "type": "string" } } }),
            Content::None => return None,
        })
    }
}

/// A route of the document.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    /// The parameters of its query, and what they mean.
    pub(super) query: &'static [(&'static str, &'static str)],
    pub(super) body: Content,
    /// The responses that are no errors.
    pub(super) responses: Vec<(u16, &'static str, Content)>,
}

fn name_of_path_parameter(name: &str) -> &'static str {
    match name {
        "session" => "The session.",
        "sandbox" => "The name of the sandbox.",
        "process" => "The ID of the process.",
        "snapshot" => "The ID of the snapshot.",
        "tool" => "The name of the tool.",
        "path" => "The path of the file below the root of the sandbox. It may contain slashes.",
        other => panic!("the parameter `{other}` has no description"),
    }
}

impl Route {
    pub(super) fn to_value(&self) -> Value {
        let mut parameters = Vec::new();
        for name in self.path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()) {
            parameters.push(json!({
                "name": name, "in": "path", "required": true, "description": name_of_path_parameter(name),
                "schema": { "type": "string" },
            }));
        }
        for (name, description) in self.query {
            parameters.push(json!({
                "name": name, "in": "query", "description": description, "schema": { "type": "string" },
            }));
        }
        let mut responses = Map::new();
        for (status, description, content) in &self.responses {
            let mut response = json!({ "description": description });
            if let Some(content) = content.to_value() {
                response["content"] = content;
            }
            responses.insert(status.to_string(), response);
        }
        responses.insert("default".into(), json!({ "$ref": "#/components/responses/Error" }));
        let mut operation = json!({ "summary": self.summary, "parameters": parameters });
        if let Some(content) = self.body.to_value() {
            operation["requestBody"] = json!({ "required": true, "content": content });
        }
        operation["responses"] = responses.into();
        operation
    }
}

pub(super) fn json_of<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Content {
    Content::Json(schemas.subschema_for::<T>().to_value())
}

pub(super) fn any_json() -> Content {
    Content::Json(json!({ "type": "object" }))
}

pub(super) fn route(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str)],
    body: Content,
    responses: Vec<(u16, &'static str, Content)>,
) -> Route {
    Route { method, path, summary, query, body, responses }
}
