//! The family `script`: tools that run the scripts of an agent, and the tools that the agent creates.
//!
//! | module | job |
//! |---|---|
//! | `run` | `run_sandbox_code` |
//! | `state` | the tools over the state |
//! | `database` | the tools over the database |
//! | `fetch` | `fetch_url` |
//! | `browser` | the tools over the browser; with the feature `browser` |
//! | `member` | members of inputs that can be any JSON |
//! | `libraries` | the tools over libraries |
//! | `tools` | the tools over created tools |
//! | `stored` | what the tools over libraries and created tools share |
//! | `created` | the created tools themselves |

#[cfg(feature = "browser")]
mod browser;
mod created;
mod database;
mod fetch;
mod libraries;
mod member;
mod run;
mod state;
mod stored;
mod tools;

use std::borrow::Cow;

#[cfg(feature = "browser")]
use self::browser::{
    BrowserClick, BrowserClose, BrowserEvaluate, BrowserExtractHtml, BrowserExtractText, BrowserNavigate,
    BrowserScreenshot, BrowserType,
};
use self::database::{DbSchema, DbSql};
use self::fetch::FetchUrl;
use self::libraries::{CreateLibrary, DeleteLibrary, ListLibraries, ReadLibrary, UpdateLibrary};
use self::run::RunSandboxCode;
use self::state::{DeleteState, GetState, ListStateKeys, SetState};
use self::tools::{CreateTool, DeleteTool, DisableTool, EnableTool, ListTools, ReadTool, UpdateTool};
use super::dialect::Definition;
use super::family::family;
use super::{Family, Input, Reply, Tool as _, ToolFamily, unknown_tool};
use crate::error::Result;
use crate::profiles::Profiles;
use crate::provider::Provider;
use crate::script::browser::no_browser_error;
use crate::session::Session;
use crate::tool::mask::Mask;

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
    feature "browser": BrowserNavigate, BrowserScreenshot, BrowserClick, BrowserType, BrowserExtractText,
    BrowserExtractHtml, BrowserEvaluate, BrowserClose;
    schemas "schemas.json";
    with |_: &mut [_], _: &_| ()
);

/// The names of the tools over the browser. Created tools cannot have them, even where there is no browser.
const OF_THE_BROWSER: &[&str] = &[
    "browser_navigate",
    "browser_screenshot",
    "browser_click",
    "browser_type",
    "browser_extract_text",
    "browser_extract_html",
    "browser_evaluate",
    "browser_close",
];

/// Returns whether a project serves a tool: the browser is optional.
fn is_served(profiles: &Profiles, name: &str) -> bool {
    profiles.has_script_browser() || !OF_THE_BROWSER.contains(&name)
}

/// Returns whether a name is that of a built-in tool of any family.
fn is_built_in(name: &str) -> bool {
    let all = [Script::NAMES, OF_THE_BROWSER, super::agent::Agent::NAMES, super::thread::Thread::NAMES];
    all.iter().any(|names| names.contains(&name)) || super::workspace::WorkspaceTools::has(name)
}

impl ToolFamily for Scripts {
    const FAMILY: Family = Family::Script;
    const NAMES: &'static [&'static str] = Script::NAMES;
    const CREATING: &'static [&'static str] =
        &[CreateTool::NAME, UpdateTool::NAME, DeleteTool::NAME, EnableTool::NAME, DisableTool::NAME];

    fn names(profiles: &Profiles) -> Vec<Cow<'static, str>> {
        let served = Self::NAMES.iter().filter(|name| is_served(profiles, name));
        served.map(|name| Cow::Borrowed(*name)).collect()
    }

    fn definitions(profiles: &Profiles) -> Vec<Definition> {
        let mut all = Script::definitions(profiles);
        all.retain(|definition| is_served(profiles, &definition.name));
        #[cfg(feature = "browser")]
        if profiles.has_script_browser() {
            for run in all.iter_mut().filter(|definition| definition.name == RunSandboxCode::NAME) {
                run.description.to_mut().push_str(browser::GLOBAL);
            }
        }
        all
    }

    async fn created<P: Provider>(session: &Session<P>) -> Result<Vec<Definition>> {
        let mask = Mask::new(&session.provider().script_secrets(session.agent())?);
        let all = created::list_definitions(session).await?.into_iter();
        Ok(all.filter_map(|definition| mask.mask_definition(definition)).collect())
    }

    async fn call<P: Provider>(session: &Session<P>, name: &str, input: Input) -> Result<Reply> {
        let outcome = Self::call_unmasked(session, name, input).await;
        // A script may have stored a secret where another tool reads it.
        Mask::new(&session.provider().script_secrets(session.agent())?).mask_outcome(outcome)
    }
}

impl Scripts {
    /// Calls a tool. Its outcome may contain secrets.
    async fn call_unmasked<P: Provider>(session: &Session<P>, name: &str, input: Input) -> Result<Reply> {
        // Boxed, because their states are large.
        if Script::has(name) {
            return Box::pin(Script::call(session, name, input)).await;
        }
        if let Some(reply) = Box::pin(created::call_tool(session, name, input)).await? {
            return Ok(reply);
        }
        if OF_THE_BROWSER.contains(&name) {
            return Err(no_browser_error());
        }
        let created = created::list_definitions(session).await?.into_iter().map(|definition| definition.name);
        let names: Vec<Cow<'static, str>> =
            Self::names(session.profiles()).into_iter().chain(created).collect();
        Err(unknown_tool(name, &names.iter().map(|name| &**name).collect::<Vec<_>>()))
    }
}

#[cfg(all(test, feature = "browser"))]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_browser_are_those_of_its_tools() {
        let of_the_browser = Script::NAMES.iter().filter(|name| name.starts_with("browser_"));
        assert_eq!(of_the_browser.copied().collect::<Vec<_>>(), OF_THE_BROWSER);
    }
}
