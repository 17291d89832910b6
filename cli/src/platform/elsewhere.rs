//! Systems without sandboxes of namespaces, where they run in containers only.

use std::process::ExitCode;

use koze_core::provider::Profile;

use crate::doctor::Check;

/// Does nothing: no process of a sandbox is started here.
pub fn init() -> Option<ExitCode> {
    None
}

/// Returns no check.
pub(crate) fn checks(_: &[&Profile], _: bool) -> Vec<Check> {
    Vec::new()
}

/// Says how to run the Worker if no container engine is running.
pub(crate) fn without_docker() -> &'static str {
    "start Docker"
}
