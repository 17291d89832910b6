//! Reads a project for commands that do not change it.

use std::path::PathBuf;

use koze_core::Profiles;

use super::show;
use crate::args::ProjectArgs;
use crate::build::{self, Build, Options};
use crate::discover::Project;
use crate::finding::{Findings, Stop};
use crate::generate;
use crate::output::github;
use crate::rules::Rule;

/// The images that a project offers to agents.
pub(super) struct Offered {
    /// The profiles that agents may name.
    pub(super) profiles: Profiles,
    /// The sandbox files.
    pub(super) files: Vec<PathBuf>,
    /// The generated file that a build rewrites when the profiles change.
    pub(super) generated: PathBuf,
}

/// Returns the profiles that a project's sandbox files offer to agents, whether or not the project is built. Fails if no
/// sandbox serves agents.
pub(super) fn offered(place: &ProjectArgs, findings: &mut Findings) -> Result<Offered, Stop> {
    let mut build = Build::default();
    let options = Options { write: false, ..super::build::options(place) };
    build::run(&options, &mut build, findings)?;
    let dir = build.project.ok_or(Stop)?;
    match build.plan.and_then(|plan| plan.offered) {
        Some(profiles) => {
            let files = build.sandboxes.iter().map(|sandbox| dir.join(&sandbox.file)).collect();
            Ok(Offered { profiles, files, generated: dir.join(generate::DIR).join("tools.rs") })
        }
        None => findings.fail(Rule::NoImage {}, None),
    }
}

/// The findings as annotations of GitHub Actions.
pub(super) fn annotations(place: &ProjectArgs, findings: &Findings) -> String {
    let project = Project::find(&place.project, &mut Findings::new(false)).map(|project| project.dir);
    let project = project.unwrap_or_else(|_| place.project.clone());
    github::annotations(findings, &show::absolute(&project), &show::workspace())
}
