//! The family `script`: tools that run the scripts of an agent, and the tools that the agent creates.
//!
//! | module | job |
//! |---|---|
//! | `run` | `run_sandbox_code` |
//! | `state` | the tools over the state |
//! | `database` | the tools over the database |
//! | `fetch` | `fetch_url` |
//! | `libraries` | the tools over libraries |
//! | `tools` | the tools over created tools |
//! | `stored` | what the tools over libraries and created tools share |
//! | `created` | the created tools themselves |

mod created;
mod database;
mod fetch;
mod libraries;
mod run;
mod state;
mod stored;
mod tools;

use std::borrow::Cow;

use serde_json::Value;

use self::database::{DbSchema, DbSql};
use self::fetch::FetchUrl;
use self::libraries::{CreateLibrary, DeleteLibrary, ListLibraries, ReadLibrary, UpdateLibrary};
use self::run::RunSandboxCode;
use self::state::{DeleteState, GetState, ListStateKeys, SetState};
use self::tools::{CreateTool, DeleteTool, DisableTool, EnableTool, ListTools, ReadTool, UpdateTool};
use super::dialect::Definition;
use super::family::family;
use super::{Family, Reply, ToolFamily, unknown_tool};
use crate::error::Result;
use crate::profiles::Profiles;
use crate::provider::Provider;
use crate::script::mask::Mask;
use crate::session::Session;

/// The family `script`.
#[derive(Debug)]
pub struct Scripts;

/// Its built-in tools.
#[derive(Debug)]
struct Script;

family!(
    Script: RunSandboxCode, GetState, SetState, DeleteState, ListStateKeys, DbSql, DbSchema, FetchUrl,
    CreateLibrary, UpdateLibrary, DeleteLibrary, ListLibraries, ReadLibrary,
    CreateTool, UpdateTool, DeleteTool, EnableTool, DisableTool, ListTools, ReadTool;
    schemas "schemas.json";
    with |_: &mut [_], _: &_| ()
);

/// The names of tools that this version does not have, so that a created tool cannot have them either.
const RESERVED: &[&str] = &[
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
    let all = [Script::NAMES, RESERVED, super::agent::Agent::NAMES, super::thread::Thread::NAMES];
    all.iter().any(|names| names.contains(&name)) || super::workspace::WorkspaceTools::has(name)
}

impl ToolFamily for Scripts {
    const FAMILY: Family = Family::Script;
    const NAMES: &'static [&'static str] = Script::NAMES;
    const CREATES: bool = true;

    fn definitions(profiles: &Profiles) -> Vec<Definition> {
        Script::definitions(profiles)
    }

    async fn created<P: Provider>(session: &Session<P>) -> Result<Vec<Definition>> {
        let mask = Mask::new(&session.provider().script_secrets(session.agent())?)?;
        let all = created::definitions(session).await?.into_iter();
        Ok(all.filter_map(|definition| mask.definition(definition)).collect())
    }

    async fn call<P: Provider>(session: &Session<P>, name: &str, input: Value) -> Result<Reply> {
        let outcome = Self::unmasked(session, name, input).await;
        // A script may have stored a secret where another tool reads it.
        Mask::new(&session.provider().script_secrets(session.agent())?)?.outcome(outcome)
    }
}

impl Scripts {
    /// Calls a tool. Its outcome may contain secrets.
    async fn unmasked<P: Provider>(session: &Session<P>, name: &str, input: Value) -> Result<Reply> {
        // Boxed, because their states are large.
        if Script::has(name) {
            return Box::pin(Script::call(session, name, input)).await;
        }
        if let Some(reply) = Box::pin(created::call(session, name, input)).await? {
            return Ok(reply);
        }
        let created = created::definitions(session).await?.into_iter().map(|definition| definition.name);
        let names: Vec<Cow<'static, str>> =
            Self::NAMES.iter().map(|name| Cow::Borrowed(*name)).chain(created).collect();
        Err(unknown_tool(name, &names.iter().map(|name| &**name).collect::<Vec<_>>()))
    }
}
