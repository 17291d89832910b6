//! Tool definitions in the formats of the protocols.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::schema::Schemas;
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
    /// The Chat Completions API of `OpenAI`: `function.parameters`.
    OpenAi,
    /// The Responses API of `OpenAI`: `parameters`.
    OpenAiResponses,
}

impl Definition {
    /// Returns the definition of a tool of the family with these schemas.
    pub(in crate::tool) fn for_tool<T: Tool>(schemas: &Schemas) -> Self {
        Definition {
            name: T::NAME.into(),
            description: T::DESCRIPTION.into(),
            schema: schemas.schema_of(T::NAME),
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
            // The API takes `strict` for true, which forbids optional arguments.
            Dialect::OpenAiResponses => json!({
                "type": "function",
                "name": name,
                "description": description,
                "parameters": schema,
                "strict": false,
            }),
        }
    }
}
