//! Checks wrangler's requirements and starts it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::doctor::{Check, tools};
use crate::platform;
use crate::wrangler::locate::Config;
use crate::wrangler::settings;

/// Returns the missing requirements for running a project with wrangler and the `build.command` of this environment.
pub fn missing(dir: &Path, config: &Config, environment: Option<&str>) -> Vec<Check> {
    let command = settings::build_command(config.document.value(), environment);
    tools::needed(dir, command.unwrap_or_default())
}

/// The project's wrangler. Its child processes find the project's Node first, as in npm scripts, and this koze last.
#[derive(Debug)]
pub struct Wrangler {
    /// The program's path.
    pub program: PathBuf,
    /// The program's `PATH`.
    pub path: OsString,
}

impl Wrangler {
    /// Returns the wrangler of a package. Call [`missing`] first to check that it is installed.
    pub fn of(dir: &Path) -> Self {
        let bins = || tools::modules(dir).map(|modules| modules.join(".bin")).filter(|bin| bin.is_dir());
        let program = bins().find_map(|bin| platform::executable(&bin, "wrangler"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let ours = std::env::current_exe().ok().and_then(|koze| Some(koze.parent()?.to_owned()));
        let dirs = bins().chain(std::env::split_paths(&path)).chain(ours);
        let path = std::env::join_paths(dirs).unwrap_or(path);
        Wrangler { program: program.unwrap_or_else(|| PathBuf::from("wrangler")), path }
    }
}
