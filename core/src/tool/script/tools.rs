//! The tools over created tools.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::is_built_in;
use super::member::deserialize_bounded;
use super::run::check_schema;
use super::stored::{Change, Named, Read, agent_sources, create_source, update_source};
use crate::error::{Code, Error, Result};
use crate::provider::Provider;
use crate::script::sources::{Kind, Source};
use crate::session::Session;
use crate::tool::mask::Mask;
use crate::tool::{Reply, Scope, Tool};

pub(super) struct CreateTool;
pub(super) struct UpdateTool;
pub(super) struct DeleteTool;
pub(super) struct EnableTool;
pub(super) struct DisableTool;
pub(super) struct ListTools;
pub(super) struct ReadTool;

/// The input of `create_tool`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Created {
    /// The name, which matches `^[a-z][a-z0-9_]*$`.
    name: String,
    /// What it does, for the model that calls it.
    description: String,
    /// The JSON schema of its arguments, with `"type": "object"`.
    #[serde(deserialize_with = "deserialize_bounded")]
    #[cfg_attr(test, schemars(with = "serde_json::Map<String, Value>"))]
    parameter_schema: Value,
    /// JavaScript as for `run_sandbox_code`. The arguments are in `args`.
    code: String,
}

/// The input of `update_tool`. What is left out stays as it is.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Updated {
    /// The name.
    name: String,
    /// The new description.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "String"))]
    description: Option<String>,
    /// The new schema.
    #[serde(default, deserialize_with = "deserialize_bounded")]
    #[cfg_attr(test, schemars(with = "serde_json::Map<String, Value>"))]
    parameter_schema: Option<Value>,
    /// The new source.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "String"))]
    code: Option<String>,
}

/// The input of `list_tools`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// Whether to list disabled tools, too.
    #[serde(default)]
    include_disabled: bool,
}

impl Tool for CreateTool {
    const NAME: &'static str = "create_tool";
    const DESCRIPTION: &'static str = "Create a tool that runs JavaScript. It can be called at once, under its own name, with \
        arguments that match its schema. The code is compiled first. Returns its name and version.";
    const SCOPE: Scope = Scope::Session;
    type Input = Created;

    async fn call<P: Provider>(session: &Session<P>, input: Created) -> Result<Reply> {
        let Created { name, description, parameter_schema, code } = input;
        if is_built_in(&name) {
            let message = format!("`{name}` is the name of a built-in tool: choose another name");
            return Err(Error::new(Code::InvalidInput, message));
        }
        let secrets = session.provider().script_secrets(session.agent())?;
        if let Some(secret) = Mask::new(&secrets).secret_in(&name) {
            let message =
                format!("the name contains the value of the secret `{secret}`: choose another name");
            return Err(Error::new(Code::InvalidInput, message));
        }
        check_schema(session, &parameter_schema).await?;
        let source = Source::new(description, Some(parameter_schema), code);
        create_source(session, Kind::Tool, &name, source).await
    }
}

impl Tool for UpdateTool {
    const NAME: &'static str = "update_tool";
    const DESCRIPTION: &'static str = "Replace the description, schema or code of a created tool. The code is compiled first: if \
        it is broken, the tool stays as it is. Returns its name and new version; read_tool reads earlier ones.";
    const SCOPE: Scope = Scope::Session;
    type Input = Updated;

    async fn call<P: Provider>(session: &Session<P>, input: Updated) -> Result<Reply> {
        let Updated { name, description, parameter_schema, code } = input;
        update_source(session, Kind::Tool, &name, Change { description, parameter_schema, code }).await
    }
}

impl Tool for DeleteTool {
    const NAME: &'static str = "delete_tool";
    const DESCRIPTION: &'static str = "Delete a created tool and its versions.";
    const SCOPE: Scope = Scope::Session;
    type Input = Named;

    async fn call<P: Provider>(session: &Session<P>, input: Named) -> Result<Reply> {
        agent_sources(session, Kind::Tool)?.delete(&input.name).await?;
        Reply::ok(json!({ "ok": true }))
    }
}

impl Tool for EnableTool {
    const NAME: &'static str = "enable_tool";
    const DESCRIPTION: &'static str = "Enable a created tool that was disabled.";
    const SCOPE: Scope = Scope::Session;
    type Input = Named;

    async fn call<P: Provider>(session: &Session<P>, input: Named) -> Result<Reply> {
        agent_sources(session, Kind::Tool)?.set_enabled(&input.name, true).await?;
        Reply::ok(json!({ "ok": true }))
    }
}

impl Tool for DisableTool {
    const NAME: &'static str = "disable_tool";
    const DESCRIPTION: &'static str = "Disable a created tool: it is kept, but cannot be called.";
    const SCOPE: Scope = Scope::Session;
    type Input = Named;

    async fn call<P: Provider>(session: &Session<P>, input: Named) -> Result<Reply> {
        agent_sources(session, Kind::Tool)?.set_enabled(&input.name, false).await?;
        Reply::ok(json!({ "ok": true }))
    }
}

impl Tool for ListTools {
    const NAME: &'static str = "list_tools";
    const DESCRIPTION: &'static str = "List the created tools. Returns tools: name, version, description, parameter_schema, enabled, \
        and when it was updated in milliseconds since 1970.";
    const SCOPE: Scope = Scope::Session;
    type Input = List;

    async fn call<P: Provider>(session: &Session<P>, List { include_disabled }: List) -> Result<Reply> {
        let entry = |(name, source): (String, Source)| {
            let Source { version, description, parameter_schema, enabled, updated, .. } = source;
            json!({
                "name": name, "version": version, "description": description, "parameter_schema": parameter_schema,
                "enabled": enabled, "updated": updated,
            })
        };
        let all = agent_sources(session, Kind::Tool)?.list().await?.into_iter();
        let list: Vec<Value> =
            all.filter(|(_, source)| source.enabled || include_disabled).map(entry).collect();
        Reply::ok(json!({ "tools": list }))
    }
}

impl Tool for ReadTool {
    const NAME: &'static str = "read_tool";
    const DESCRIPTION: &'static str = "Read a created tool, or an earlier version. Returns code, version, description, \
        parameter_schema, enabled, updated, and the versions that are kept.";
    const SCOPE: Scope = Scope::Session;
    type Input = Read;

    async fn call<P: Provider>(session: &Session<P>, Read { name, version }: Read) -> Result<Reply> {
        let (source, versions) =
            agent_sources(session, Kind::Tool)?.read_with_versions(&name, version).await?;
        Reply::ok(json!({
            "name": name, "version": source.version, "description": source.description,
            "parameter_schema": source.parameter_schema, "code": source.code, "enabled": source.enabled,
            "updated": source.updated, "versions": versions,
        }))
    }
}
