//! The family `script`: tools that run the scripts of an agent, and the tools that the agent creates.
//!
//! | module | job |
//! |---|---|
//! | `run` | `run_sandbox_code` |
//! | `state` | the tools over the state |
//! | `database` | the tools over the database |
//! | `libraries` | the tools over libraries |
//! | `tools` | the tools over created tools |
//! | `created` | the created tools themselves |

mod created;
mod database;
mod libraries;
mod run;
mod state;
mod tools;

use std::borrow::Cow;

use serde_json::Value;

use super::dialect::Definition;
use super::schema::Schemas;
use super::{Family, Reply, Tool, ToolFamily, call, unknown_tool};
use crate::error::Result;
use crate::profiles::Profiles;
use crate::provider::Provider;
use crate::session::Session;

/// The family `script`.
#[derive(Debug)]
pub struct Scripts;

macro_rules! built_in {
    ($($tool:ty),* $(,)?) => {
        const NAMES: &[&str] = &[$(<$tool>::NAME),*];

        fn definitions() -> Vec<Definition> {
            let schemas = Schemas::parse(include_str!("schemas.json"));
            vec![$(Definition::of::<$tool>(&schemas)),*]
        }

        #[cfg(test)]
        fn derived() -> serde_json::Map<String, Value> {
            use super::schema::derived::schema;
            let schemas = [$((<$tool>::NAME.to_owned(), schema::<<$tool as Tool>::Input>())),*];
            schemas.into_iter().collect()
        }

        async fn call_built_in<P: Provider>(
            session: &Session<P>,
            name: &str,
            input: Value,
        ) -> std::result::Result<Result<Reply>, Value> {
            match name {
                $(<$tool>::NAME => Ok(call::<$tool, P>(session, input).await),)*
                _ => Err(input),
            }
        }
    };
}
built_in!(
    run::RunSandboxCode,
    state::GetState,
    state::SetState,
    state::DeleteState,
    state::ListStateKeys,
    database::DbSql,
    database::DbSchema,
    libraries::CreateLibrary,
    libraries::UpdateLibrary,
    libraries::DeleteLibrary,
    libraries::ListLibraries,
    libraries::ReadLibrary,
    tools::CreateTool,
    tools::UpdateTool,
    tools::DeleteTool,
    tools::EnableTool,
    tools::DisableTool,
    tools::ListTools,
    tools::ReadTool,
);

/// The names of tools that this version does not have, so that a created tool cannot have them either.
const RESERVED: &[&str] = &[
    "fetch_url",
    "browser_navigate",
    "browser_screenshot",
    "browser_click",
    "browser_type",
    "browser_extract_text",
    "browser_extract_html",
    "browser_evaluate",
    "browser_close",
];

/// Returns whether a name is that of a built-in tool of any family.
fn is_built_in(name: &str) -> bool {
    let all = [NAMES, RESERVED, super::agent::Agent::NAMES, super::thread::Thread::NAMES];
    all.iter().any(|names| names.contains(&name)) || super::workspace::WorkspaceTools::has(name)
}

impl ToolFamily for Scripts {
    const FAMILY: Family = Family::Script;
    const NAMES: &'static [&'static str] = NAMES;
    const CREATES: bool = true;

    fn definitions(_: &Profiles) -> Vec<Definition> {
        definitions()
    }

    async fn created<P: Provider>(session: &Session<P>) -> Result<Vec<Definition>> {
        created::definitions(session).await
    }

    async fn call<P: Provider>(session: &Session<P>, name: &str, input: Value) -> Result<Reply> {
        // Boxed, because their states are large.
        let input = match Box::pin(call_built_in(session, name, input)).await {
            Ok(reply) => return reply,
            Err(input) => input,
        };
        if let Some(reply) = Box::pin(created::call(session, name, input)).await? {
            return Ok(reply);
        }
        let created = created::definitions(session).await?.into_iter().map(|definition| definition.name);
        let names: Vec<Cow<'static, str>> =
            NAMES.iter().map(|name| Cow::Borrowed(*name)).chain(created).collect();
        Err(unknown_tool(name, &names.iter().map(|name| &**name).collect::<Vec<_>>()))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_schemas_are_those_of_the_types() {
        crate::tool::schema::derived::check("script", &super::derived());
    }
}
