//! What `koze doctor` looks at: the project, and the tools that building, checking and deploying it need.
//!
//! Each check is data; the command shows them. No check changes anything, and none reaches the network.

mod command;
#[cfg(target_os = "linux")]
mod groups;
mod project;
mod toolchain;
pub(crate) mod tools;

use std::time::SystemTime;

use koze_model::Backend;
use serde::Serialize;

use crate::build::Build;
use crate::finding::Findings;
use crate::plan::Planned;
use crate::wrangler::locate::Config;
use crate::wrangler::settings;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// It works today, or it is needed for some tasks only.
    Warning,
    /// A build or a deployment will fail.
    Error,
}

impl Status {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warning => "warning",
            Status::Error => "error",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Check {
    /// What: one word.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What to do; none where it is as it should be.
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

/// All checks, after a build that wrote nothing: `build` and `findings` are what came of it, and `config` is what it
/// would edit.
pub fn examine(build: &Build, findings: &Findings, config: Option<&Config>, now: SystemTime) -> Vec<Check> {
    let mut checks = project::checks(build, findings, now);
    let native = |summary: &Planned| summary.backend == Backend::Native;
    if build.sandboxes.is_empty() || !build.sandboxes.iter().all(native) {
        checks.extend(config.map(project::flags));
    }
    let command = config.and_then(|config| settings::build_command(config.document.value(), None));
    checks.extend(tools::checks(build, command));
    #[cfg(target_os = "linux")]
    checks.extend(groups::check());
    checks
}
