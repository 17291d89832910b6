//! The agent family: twelve tools over the sandboxes of a session.

mod browse;
mod files;
mod glob;
mod processes;
mod sandboxes;
mod shell;
mod transfer;

use super::dialect::Definition;
use super::family::family;
use crate::error::{Code, Error, Result};
use crate::id::SandboxName;
use crate::profiles::Profiles;
use crate::provider::Provider;
use crate::session::Session;

pub use browse::Browse;
#[cfg(test)]
pub(in crate::tool) use files::to_part;
pub use files::{Encoding, ReadFile, WriteFile};
pub(in crate::tool) use files::{MAX_READ, cut_content, read_part};
pub use glob::Glob;
pub use processes::{ProcessInput, ProcessKill, ProcessList, ProcessOutput};
pub use sandboxes::{SandboxCreate, SandboxList};
pub use shell::Shell;
pub use transfer::Transfer;

/// The sandbox that a tool uses if the model names none.
pub const DEFAULT: &str = "default";

fn default_sandbox() -> String {
    DEFAULT.to_owned()
}

/// Returns a sandbox for a tool that only looks at it. Such a tool creates only the default one: another name that does not exist
/// is probably misspelled.
async fn existing_sandbox<P: Provider>(session: &Session<P>, name: &str) -> Result<P::Sandbox> {
    let checked = SandboxName::new(name)?;
    if name != DEFAULT && session.find_sandbox(&checked).await?.is_none() {
        // A session without a list does not know the names.
        let names: Vec<String> = session
            .list()
            .await
            .unwrap_or_default()
            .into_iter()
            .map(|info| format!("`{}`", info.name))
            .collect();
        let known =
            if names.is_empty() { String::new() } else { format!(": there are {}", names.join(", ")) };
        let message = format!(
            "there is no sandbox `{name}`{known}. A sandbox is created by `sandbox_create`, `shell` and `write_file`"
        );
        return Err(Error::new(Code::NotFound, message));
    }
    session.sandbox(name).await
}

/// Adjusts the definitions to the profiles of a project.
fn adjust_definitions(definitions: &mut Vec<Definition>, profiles: &Profiles) {
    sandboxes::name_profiles(definitions, profiles);
    processes::remove_unless_allowed(definitions, profiles);
}

/// The family `agent`.
#[derive(Debug)]
pub struct Agent;

family!(
    Agent: Shell, ProcessList, ProcessOutput, ProcessInput, ProcessKill, ReadFile, WriteFile, Glob, Browse, SandboxCreate,
        SandboxList, Transfer;
    schemas "schemas.json";
    with adjust_definitions
);
