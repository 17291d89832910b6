//! The tools that an agent has created.

use super::run::run_script;
use super::stored::agent_sources;
use crate::error::{Code, Error, Result};
use crate::provider::Provider;
use crate::script::sources::{Kind, Source};
use crate::script::{Json, Start};
use crate::session::Session;
use crate::tool::dialect::Definition;
use crate::tool::{Input, Reply, Scope};

/// The longest arguments of a call, in bytes of JSON.
const MAX_ARGUMENTS: usize = 1 << 20;

/// Returns the definitions of the tools that are enabled.
pub(super) async fn list_definitions<P: Provider>(session: &Session<P>) -> Result<Vec<Definition>> {
    let all = agent_sources(session, Kind::Tool)?.list().await?.into_iter();
    let definition = |(name, source): (String, Source)| Definition {
        name: name.into(),
        description: source.description.into(),
        schema: source.parameter_schema.unwrap_or_default(),
        scope: Scope::Session,
    };
    Ok(all.filter(|(_, source)| source.enabled).map(definition).collect())
}

/// Calls a created tool. Returns `None` if no tool has this name.
pub(super) async fn call_tool<P: Provider>(
    session: &Session<P>,
    name: &str,
    input: Input,
) -> Result<Option<Reply>> {
    // A name that cannot be one is unknown, and not invalid.
    let found = match agent_sources(session, Kind::Tool)?.find(name).await {
        Err(error) if error.code == Code::InvalidInput => None,
        found => found?,
    };
    let Some(found) = found else { return Ok(None) };
    if !found.source.enabled {
        let message = format!("Tool '{name}' is disabled. Use enable_tool to enable it.");
        return Err(Error::new(Code::Unavailable, message));
    }
    if input.text().len() > MAX_ARGUMENTS {
        let message = format!(
            "the arguments may have at most {MAX_ARGUMENTS} bytes of JSON: pass less, or store it with set_state"
        );
        return Err(Error::new(Code::TooLarge, message));
    }
    let args = Json::new(input.text().to_owned()).map_err(|error| {
        Error::new(Code::Internal, "the arguments cannot be passed on").with_source(error)
    })?;
    let schema = Json::from(&found.source.parameter_schema.unwrap_or_default());
    let script =
        Start { code: found.source.code, args: Some(args), schema: Some(schema), ..Start::default() };
    run_script(session, script).await.map(Some)
}
