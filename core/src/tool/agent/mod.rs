//! The agent family: eight tools over the sandboxes of a session.

mod browse;
mod files;
pub(crate) mod glob;
mod sandboxes;
mod shell;
mod transfer;

use super::family::family;

pub use browse::Browse;
#[cfg(test)]
pub(in crate::tool) use files::part;
pub use files::{Encoding, ReadFile, WriteFile};
pub(in crate::tool) use files::{MAX_READ, cut, read_part};
pub use glob::Glob;
pub use sandboxes::{SandboxCreate, SandboxList};
pub use shell::Shell;
pub use transfer::Transfer;

/// The sandbox that a tool uses if the model names none.
pub const DEFAULT: &str = "default";

fn default_sandbox() -> String {
    DEFAULT.to_owned()
}

/// The family `agent`.
#[derive(Debug)]
pub struct Agent;

family!(
    Agent: Shell, ReadFile, WriteFile, Glob, Browse, SandboxCreate, SandboxList, Transfer;
    schemas "schemas.json";
    with sandboxes::name_profiles
);
