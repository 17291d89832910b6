//! Linux has sandboxes of namespaces.

use std::process::ExitCode;

use koze_core::provider::Profile;

use crate::doctor::{Check, core_files, namespaces};
use crate::provider;

/// Becomes the process of a sandbox, or the subject of an escape attempt, if this program was started as one. Returns the
/// exit code of an attempt. Call it first in `main`.
pub fn init() -> Option<ExitCode> {
    provider::init()
}

/// Returns the checks of `koze doctor` that only this system has, if they have something to say.
pub(crate) fn checks(profiles: &[&Profile], needs_browser: bool) -> Vec<Check> {
    let browser = needs_browser.then(namespaces::check_browser);
    let images = namespaces::check_images(profiles);
    let network = namespaces::check_network(profiles);
    [images, network, browser, core_files::check(), namespaces::check_groups()]
        .into_iter()
        .flatten()
        .collect()
}

/// Says how to run the Worker if no container engine is running.
pub(crate) fn without_docker() -> &'static str {
    "start Docker, or run `koze dev --local`, which does not need it"
}
