//! The family `workspace`: tools over the declared workspaces of a session, named `workspace__<name>__<op>`.

mod code;
mod files;
mod processes;
mod search;
mod shell;
mod snapshots;

use std::borrow::Cow;
use std::future::Future;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::dialect::Definition;
use super::schema::Schemas;
use super::{Family, Input, Reply, Scope, ToolFamily, process, unknown_tool};
use crate::error::{Code, Error, Result};
use crate::http;
use crate::maybe_send::MaybeSend;
use crate::profiles::Profiles;
use crate::provider::Provider;
use crate::sandbox::Sandbox;
use crate::session::Session;
use crate::workspace::{Capability, Workspace, WorkspaceConfig};

/// The beginning of the names of all tools of workspaces. It is reserved for them.
pub const PREFIX: &str = "workspace__";

/// The family `workspace`.
#[derive(Debug)]
pub struct WorkspaceTools;

/// A tool of a workspace.
trait Operation {
    /// The last part of its name.
    const NAME: &'static str;
    /// Its description for models.
    const DESCRIPTION: &'static str;
    /// The capability that it belongs to.
    const CAPABILITY: Capability;
    /// Whether it needs contexts of code.
    const STATEFUL: bool = false;
    /// Whether its description says where the workspace is.
    const NAMES_DIRECTORY: bool = true;
    /// Its input.
    type Input: DeserializeOwned + MaybeSend;

    /// Runs it.
    fn call<S: Sandbox>(
        workspace: &Workspace<S>,
        input: Self::Input,
    ) -> impl Future<Output = Result<Reply>> + MaybeSend;
}

macro_rules! operations {
    ($($operation:path),* $(,)?) => {
        /// Returns the names of a workspace's operations, in the order in which a model reads them.
        fn declared_operations(config: &WorkspaceConfig) -> Vec<&'static str> {
            let capabilities = config.capabilities();
            let stateful = config.code.as_ref().is_some_and(|code| code.stateful);
            let all = [$((<$operation>::NAME, <$operation>::CAPABILITY, <$operation>::STATEFUL)),*];
            let is_declared = |(name, needs, contexts): &(&str, _, bool)| {
                let is_served = config.processes || !process::NAMES.contains(name);
                capabilities.contains(needs) && (stateful || !contexts) && is_served
            };
            all.into_iter().filter(is_declared).map(|(name, ..)| name).collect()
        }

        fn find_definition(config: &WorkspaceConfig, name: &str, schemas: &Schemas) -> Option<Definition> {
            match name {
                $(<$operation>::NAME => Some(define_operation::<$operation>(config, schemas)),)*
                _ => None,
            }
        }

        async fn call_operation<S: Sandbox>(workspace: &Workspace<S>, name: &str, input: Input) -> Result<Reply> {
            match name {
                $(<$operation>::NAME => <$operation>::call(workspace, input.decode()?).await,)*
                _ => Err(unknown_tool(name, &declared_operations(workspace.config()))),
            }
        }

        #[cfg(test)]
        fn derive_schemas() -> serde_json::Map<String, Value> {
            use crate::tool::schema::derived::generate_schema;
            let schemas = [$((<$operation>::NAME.to_owned(), generate_schema::<<$operation as Operation>::Input>())),*];
            schemas.into_iter().collect()
        }
    };
}
operations!(
    files::ReadFile,
    files::WriteFile,
    files::EditFile,
    search::Ls,
    search::Glob,
    search::Grep,
    files::Stat,
    files::Mkdir,
    files::Rm,
    shell::Run,
    processes::List,
    processes::Output,
    processes::Input,
    processes::Kill,
    code::RunCode,
    code::CreateContext,
    code::ListContexts,
    code::RunInContext,
    code::RestartContext,
    code::DeleteContext,
    snapshots::Take,
    snapshots::Restore,
    snapshots::Branch,
);

fn define_operation<T: Operation>(config: &WorkspaceConfig, schemas: &Schemas) -> Definition {
    let place = match T::CAPABILITY {
        _ if !T::NAMES_DIRECTORY => String::new(),
        Capability::Shell | Capability::Code => format!(" It starts in {}.", config.dir),
        Capability::Snapshot => {
            format!(" The directory is {}.", config.snapshot_dir.as_ref().unwrap_or(&config.dir))
        }
        _ => format!(" Relative paths start at {}, and paths outside of it are refused.", config.dir),
    };
    let allowed = config.shell.as_ref().and_then(|shell| shell.allow.as_ref());
    let allowed = match (T::CAPABILITY, allowed) {
        (Capability::Shell, Some(allowed)) => {
            format!(" Only these programs are allowed: {}.", allowed.join(", "))
        }
        _ => String::new(),
    };
    let mut schema = with_snapshots(with_languages(schemas.schema_of(T::NAME), config), config);
    let properties = schema.pointer_mut("/properties").and_then(Value::as_object_mut);
    if let Some(properties) = properties.filter(|_| !config.processes) {
        properties.shift_remove(process::BACKGROUND);
    }
    Definition {
        name: tool_name(&config.name, T::NAME).into(),
        description: format!("{}{place}{allowed}", T::DESCRIPTION).into(),
        schema,
        scope: Scope::Session,
    }
}

/// Completes the schema of a tool for code with the languages of the workspace.
fn with_languages(mut schema: Value, config: &WorkspaceConfig) -> Value {
    if let Some(code) = &config.code
        && let Some(language) = schema.pointer_mut("/properties/language").and_then(Value::as_object_mut)
    {
        language.insert("enum".into(), code.languages.iter().map(|one| one.name()).collect());
    }
    schema
}

/// The key of a tool's input that names a restored workspace.
const RESTORED: &str = "workspace";

/// Completes the schema of a tool for the workspaces that were restored from snapshots, if there can be any.
fn with_snapshots(mut schema: Value, config: &WorkspaceConfig) -> Value {
    let (Some(snapshot), Some(object)) = (&config.snapshot, schema.as_object_mut()) else { return schema };
    // The schema of an input without keys has none.
    let properties = object.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else { return schema };
    if !snapshot.allow_cross_session {
        properties.shift_remove("session");
    }
    let description = "The workspace that restore or branch returned. By default, the workspace itself.";
    properties.insert(RESTORED.into(), json!({ "type": "string", "description": description }));
    schema
}

/// Takes the restored workspace from the input of a tool.
fn take_restored(input: &mut Input, config: &WorkspaceConfig) -> Result<Option<String>> {
    if config.snapshot.is_none() {
        return Ok(None);
    }
    let Some(sandbox) = input.take_member(RESTORED) else { return Ok(None) };
    serde_json::from_str(sandbox.get()).map(Some).map_err(|error| {
        let message = format!("`{RESTORED}` must be a text that `restore` or `branch` returned");
        Error::new(Code::InvalidInput, message).with_source(error)
    })
}

fn parse_schemas() -> Schemas {
    Schemas::parse(include_str!("schemas.json"))
}

fn tool_name(workspace: &str, operation: &str) -> String {
    format!("{PREFIX}{workspace}__{operation}")
}

fn served_configs(profiles: &Profiles) -> impl Iterator<Item = WorkspaceConfig> {
    profiles.list().iter().filter_map(crate::provider::Profile::served_workspace)
}

impl ToolFamily for WorkspaceTools {
    const FAMILY: Family = Family::Workspace;
    const NAMES: &'static [&'static str] = &[];

    fn has(name: &str) -> bool {
        name.starts_with(PREFIX)
    }

    fn names(profiles: &Profiles) -> Vec<Cow<'static, str>> {
        let of = |config: WorkspaceConfig| {
            let name = |operation| Cow::Owned(tool_name(&config.name, operation));
            declared_operations(&config).into_iter().map(name).collect::<Vec<_>>()
        };
        served_configs(profiles).flat_map(of).collect()
    }

    fn definitions(profiles: &Profiles) -> Vec<Definition> {
        let schemas = parse_schemas();
        let of = |config: WorkspaceConfig| {
            let definition = |name| find_definition(&config, name, &schemas);
            declared_operations(&config).into_iter().filter_map(definition).collect::<Vec<_>>()
        };
        served_configs(profiles).flat_map(of).collect()
    }

    async fn answer_snapshots<P: Provider>(
        session: &Session<P>,
        request: &http::Request,
    ) -> Option<std::result::Result<http::Response, http::Refusal>> {
        Some(http::snapshots::answer_request(session, request).await)
    }

    async fn call<P: Provider>(session: &Session<P>, name: &str, mut input: Input) -> Result<Reply> {
        let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once("__"));
        let config = parts.and_then(|(workspace, operation)| {
            let config = served_configs(session.profiles()).find(|config| config.name == workspace)?;
            declared_operations(&config).contains(&operation).then_some((config, operation))
        });
        let Some((config, operation)) = config else {
            let names = Self::names(session.profiles());
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            return Err(unknown_tool(name, &names));
        };
        let workspace = match take_restored(&mut input, &config)? {
            Some(sandbox) => session.workspaces().restored(&config.name, &sandbox).await?,
            None => session.workspaces().get(&config.name).await?,
        };
        call_operation(&workspace.with_progress(session.progress()), operation, input).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_schemas_are_those_of_the_types() {
        crate::tool::schema::derived::check_committed("workspace", &derive_schemas());
    }

    /// The providers of models accept names of up to 64 characters.
    #[test]
    fn names_are_short_enough() {
        let config = WorkspaceConfig {
            shell: Some(crate::workspace::ShellConfig::default()),
            code: Some(crate::workspace::CodeConfig { stateful: true, ..Default::default() }),
            snapshot: Some(crate::workspace::SnapshotConfig::default()),
            ..WorkspaceConfig::new("a".repeat(20))
        };
        for operation in declared_operations(&config) {
            assert!(tool_name(&config.name, operation).len() <= 64);
            assert_eq!(
                find_definition(&config, operation, &parse_schemas()).unwrap().name,
                tool_name(&config.name, operation)
            );
        }
    }
}
