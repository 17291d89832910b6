//! Definitions of tools, as the protocols write them.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::Tool;

/// A tool as a model gets to know it.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// What it is called.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// The JSON schema of its input.
    pub schema: Value,
}

/// Whose words a definition is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The Model Context Protocol: `inputSchema`.
    Mcp,
    /// The Messages API of Anthropic: `input_schema`.
    Anthropic,
    /// `OpenAI`: `function.parameters`.
    OpenAi,
}

impl Definition {
    /// The definition of a tool.
    pub fn of<T: Tool>() -> Self {
        Definition { name: T::NAME, description: T::DESCRIPTION, schema: schema::<T::Input>() }
    }

    /// The definition in a dialect.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        let Definition { name, description, schema } = self;
        match dialect {
            Dialect::Mcp => json!({ "name": name, "description": description, "inputSchema": schema }),
            Dialect::Anthropic => json!({ "name": name, "description": description, "input_schema": schema }),
            Dialect::OpenAi => json!({
                "type": "function",
                "function": { "name": name, "description": description, "parameters": schema },
            }),
        }
    }
}

/// The schema of a type, whole in itself: models read no references.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.with_transform(Plain).into_generator().into_root_schema_for::<T>();
    for key in ["title", "description"] {
        schema.remove(key);
    }
    schema.to_value()
}

/// Takes out what says nothing to a model: formats of integers that their ranges say already, and the null that an
/// optional key may be.
#[derive(Debug, Clone)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        if schema.get("format").and_then(Value::as_str) == Some("uint64") {
            schema.remove("format");
        }
        transform_subschemas(self, schema);
    }
}
