//! The checks of `koze doctor`: the project, and the tools that build, check and deploy it.
//!
//! Each check is data; the command shows it. No check changes anything or uses the network.

mod command;
#[cfg(namespaces)]
pub(crate) mod core_files;
#[cfg(namespaces)]
pub(crate) mod namespaces;
mod project;
mod toolchain;
pub(crate) mod tools;

use std::time::SystemTime;

use koze_core::provider::Profile;
use serde::Serialize;

use crate::build::Build;
use crate::finding::Findings;
use crate::plan::Planned;
use crate::platform;
use crate::wrangler::locate::Config;
use crate::wrangler::settings;

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing to do.
    Ok,
    /// Works today, or is needed only for some tasks.
    Warning,
    /// Builds or deployments will fail.
    Error,
}

impl Status {
    /// Returns the word for the outcome.
    pub fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warning => "warning",
            Status::Error => "error",
        }
    }
}

/// A check and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Check {
    /// The subject, in one word.
    pub name: &'static str,
    /// The outcome.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// The remedy, if one is needed.
    pub help: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Check { name, status: Status::Ok, found: found.into(), help: None }
    }

    fn warning(name: &'static str, found: impl Into<String>, help: impl Into<String>) -> Self {
        Check { name, status: Status::Warning, found: found.into(), help: Some(help.into()) }
    }

    fn error(name: &'static str, found: impl Into<String>, help: impl Into<String>) -> Self {
        Check { name, status: Status::Error, found: found.into(), help: Some(help.into()) }
    }
}

/// Runs all checks after a dry-run build. `build` and `findings` are its results, and `config` is the configuration
/// that it would edit.
pub fn examine(build: &Build, findings: &Findings, config: Option<&Config>, now: SystemTime) -> Vec<Check> {
    let mut checks = project::checks(build, findings, now);
    let has_own_guest = |summary: &Planned| summary.backend.has_own_guest();
    if build.sandboxes.is_empty() || !build.sandboxes.iter().all(has_own_guest) {
        checks.extend(config.map(project::flags));
    }
    let command = config.and_then(|config| settings::build_command(config.document.value(), None));
    checks.extend(tools::checks(build, command));
    let needs_browser = build.script.as_ref().is_some_and(|script| script.browser);
    let profiles: Vec<&Profile> = build.sandboxes.iter().flat_map(|planned| &planned.provided).collect();
    checks.extend(platform::checks(&profiles, needs_browser));
    checks
}
