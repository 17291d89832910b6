//! The definitions of the tools.

use serde_json::{Value, json};

use super::Query;
use crate::error::{Code, Error, Result};
use crate::profiles::Profiles;
use crate::tool::dialect::Dialect;
use crate::tool::instructions::{Host, describe};
use crate::tool::{Catalog, Families};

/// Returns the definitions of a catalog's tools, in the dialect of the query. With `instructions` in the query, also what a model
/// must know about the sandboxes on a host.
///
/// # Errors
/// [`Code::InvalidInput`] if there is no such dialect.
pub fn describe_tools<F: Families>(
    catalog: &Catalog<F>,
    profiles: &Profiles,
    host: &Host,
    query: &Query,
) -> Result<Value> {
    let dialect = find_dialect(query.get("dialect").map_or("mcp", String::as_str))?;
    let definitions = catalog.definitions(profiles);
    let tools = Value::Array(definitions.iter().map(|tool| tool.to_json(dialect)).collect());
    if !query.contains_key("instructions") {
        return Ok(tools);
    }
    Ok(json!({ "instructions": describe(catalog.families(), profiles, host), "tools": tools }))
}

fn find_dialect(name: &str) -> Result<Dialect> {
    match name {
        "mcp" => Ok(Dialect::Mcp),
        "anthropic" => Ok(Dialect::Anthropic),
        "openai" => Ok(Dialect::OpenAi),
        "openai-responses" => Ok(Dialect::OpenAiResponses),
        other => {
            let message =
                format!("unknown dialect `{other}`: use mcp, anthropic, openai or openai-responses");
            Err(Error::new(Code::InvalidInput, message))
        }
    }
}
