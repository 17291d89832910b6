//! What the tools over libraries and those over created tools share: both are sources with versions.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::run::{check_code, check_schema};
use crate::error::Result;
use crate::provider::Provider;
use crate::script::sources::{Kind, Source, Sources};
use crate::session::Session;
use crate::tool::Reply;

/// The input of tools that take a name only.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    /// The name.
    pub(super) name: String,
}

/// The input of `read_library` and `read_tool`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// The name.
    pub(super) name: String,
    /// An earlier version.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub(super) version: Option<u64>,
}

/// What an update changes. What is left out stays as it is.
pub(super) struct Change {
    pub(super) description: Option<String>,
    pub(super) parameter_schema: Option<Value>,
    pub(super) code: Option<String>,
}

/// Returns the sources of the session's agent.
pub(super) fn agent_sources<P: Provider>(session: &Session<P>, kind: Kind) -> Result<Sources<P::Store>> {
    Ok(Sources::new(session.agent_store()?, kind))
}

/// Creates a source that compiles.
pub(super) async fn create_source<P: Provider>(
    session: &Session<P>,
    kind: Kind,
    name: &str,
    source: Source,
) -> Result<Reply> {
    check_code(session, kind, &source.code).await?;
    version_reply(name, &agent_sources(session, kind)?.create(name, source).await?)
}

/// Changes a source, if what is new is valid.
pub(super) async fn update_source<P: Provider>(
    session: &Session<P>,
    kind: Kind,
    name: &str,
    change: Change,
) -> Result<Reply> {
    let sources = agent_sources(session, kind)?;
    let current = sources.get(name).await?;
    let mut new = current.source.clone();
    if let Some(schema) = change.parameter_schema {
        check_schema(session, &schema).await?;
        new.parameter_schema = Some(schema);
    }
    if let Some(code) = change.code {
        check_code(session, kind, &code).await?;
        new.code = code;
    }
    if let Some(description) = change.description {
        new.description = description;
    }
    version_reply(name, &sources.update(name, &current, new).await?)
}

fn version_reply(name: &str, source: &Source) -> Result<Reply> {
    Reply::ok(json!({ "name": name, "version": source.version }))
}
