//! The tools over libraries.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::stored::{Change, Named, Read, agent_sources, create_source, update_source};
use crate::error::Result;
use crate::provider::Provider;
use crate::script::sources::{Kind, Source};
use crate::session::Session;
use crate::tool::{Reply, Scope, Tool};

pub(super) struct CreateLibrary;
pub(super) struct UpdateLibrary;
pub(super) struct DeleteLibrary;
pub(super) struct ListLibraries;
pub(super) struct ReadLibrary;

/// The input of `create_library`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Created {
    /// The name for `require`, such as `text_utils`.
    name: String,
    /// A `CommonJS` module: it assigns to `exports` or `module.exports`.
    code: String,
    /// What it is for.
    #[serde(default)]
    description: String,
}

/// The input of `update_library`. What is left out stays as it is.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Updated {
    /// The name.
    name: String,
    /// The new source.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "String"))]
    code: Option<String>,
    /// The new description.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "String"))]
    description: Option<String>,
}

/// The input of `list_libraries`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

impl Tool for CreateLibrary {
    const NAME: &'static str = "create_library";
    const DESCRIPTION: &'static str = "Create a library that scripts and tools load with require(name). The code is compiled \
        first. Returns its name and version.";
    const SCOPE: Scope = Scope::Session;
    type Input = Created;

    async fn call<P: Provider>(session: &Session<P>, input: Created) -> Result<Reply> {
        let Created { name, code, description } = input;
        create_source(session, Kind::Library, &name, Source::new(description, None, code)).await
    }
}

impl Tool for UpdateLibrary {
    const NAME: &'static str = "update_library";
    const DESCRIPTION: &'static str = "Replace the code or the description of a library. The code is compiled first: if it is \
        broken, the library stays as it is. Returns its name and new version; read_library reads earlier ones.";
    const SCOPE: Scope = Scope::Session;
    type Input = Updated;

    async fn call<P: Provider>(session: &Session<P>, input: Updated) -> Result<Reply> {
        let Updated { name, code, description } = input;
        let change = Change { description, parameter_schema: None, code };
        update_source(session, Kind::Library, &name, change).await
    }
}

impl Tool for DeleteLibrary {
    const NAME: &'static str = "delete_library";
    const DESCRIPTION: &'static str = "Delete a library and its versions.";
    const SCOPE: Scope = Scope::Session;
    type Input = Named;

    async fn call<P: Provider>(session: &Session<P>, input: Named) -> Result<Reply> {
        agent_sources(session, Kind::Library)?.delete(&input.name).await?;
        Reply::ok(json!({ "ok": true }))
    }
}

impl Tool for ListLibraries {
    const NAME: &'static str = "list_libraries";
    const DESCRIPTION: &'static str = "List the libraries. Returns libraries: name, version, description, and when it was updated in milliseconds since 1970.";
    const SCOPE: Scope = Scope::Session;
    type Input = Nothing;

    async fn call<P: Provider>(session: &Session<P>, _: Nothing) -> Result<Reply> {
        let entry = |(name, source): (String, Source)| {
            let Source { version, description, updated, .. } = source;
            json!({ "name": name, "version": version, "description": description, "updated": updated })
        };
        let list: Vec<Value> =
            agent_sources(session, Kind::Library)?.list().await?.into_iter().map(entry).collect();
        Reply::ok(json!({ "libraries": list }))
    }
}

impl Tool for ReadLibrary {
    const NAME: &'static str = "read_library";
    const DESCRIPTION: &'static str = "Read the code of a library, or of an earlier version. Returns code, version, description, updated, and the versions that are kept.";
    const SCOPE: Scope = Scope::Session;
    type Input = Read;

    async fn call<P: Provider>(session: &Session<P>, Read { name, version }: Read) -> Result<Reply> {
        let (source, versions) =
            agent_sources(session, Kind::Library)?.read_with_versions(&name, version).await?;
        Reply::ok(json!({
            "name": name, "version": source.version, "description": source.description, "code": source.code,
            "updated": source.updated, "versions": versions,
        }))
    }
}
