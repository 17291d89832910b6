//! Tool definitions in the formats of the protocols.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::{Scope, Tool};

/// The definition of a tool for models.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its description.
    pub description: Cow<'static, str>,
    /// The JSON schema of its input.
    pub schema: Value,
    /// What it works on.
    pub scope: Scope,
}

/// The format of a tool definition.
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
    /// Returns the definition of a tool.
    pub fn of<T: Tool>() -> Self {
        Definition {
            name: T::NAME.into(),
            description: T::DESCRIPTION.into(),
            schema: schema::<T::Input>(),
            scope: T::SCOPE,
        }
    }

    /// Returns the definition in a format.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        let Definition { name, description, schema, .. } = self;
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

/// Returns the schema of a type without references, which models do not follow.
pub(in crate::tool) fn schema<T: JsonSchema>() -> Value {
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

/// Removes what does not help a model: integer formats that the ranges already express, and the null of optional keys.
#[derive(Debug, Clone)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        if matches!(schema.get("format").and_then(Value::as_str), Some("uint64" | "int64")) {
            schema.remove("format");
        }
        transform_subschemas(self, schema);
    }
}
