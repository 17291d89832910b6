//! Reads a project for commands that do not change it.

use koze_core::Profiles;

use super::show;
use crate::args::ProjectArgs;
use crate::build::{self, Build, Options};
use crate::discover::Project;
use crate::finding::{Findings, Stop};
use crate::output::github;
use crate::rules::Rule;

/// Builds a project without writing, and returns the build and the profiles that its sandbox files offer to agents. Fails
/// if no sandbox serves agents, and the project does not enable scripts.
pub(super) fn offered(place: &ProjectArgs, findings: &mut Findings) -> Result<(Build, Profiles), Stop> {
    let build = read(place, findings)?;
    let offered = build.plan.as_ref().and_then(|plan| plan.offered.clone());
    let profiles = match (offered, build.script.clone()) {
        (offered, Some(scripts)) => scripts.add_to(offered.unwrap_or_else(Profiles::of_scripts)),
        (Some(profiles), None) => profiles,
        (None, None) => return findings.fail(Rule::NoImage {}, None),
    };
    let profiles = profiles.with_journal(build.journal).with_local_image(build.local_image);
    Ok((build, profiles))
}

/// Builds a project for this machine without writing.
pub(super) fn read(place: &ProjectArgs, findings: &mut Findings) -> Result<Build, Stop> {
    let mut build = Build::default();
    let mut options = Options { write: false, worker: false, ..super::build::options(place) };
    options.draft.allows_other_backends = true;
    build::run(&options, &mut build, findings)?;
    Ok(build)
}

/// The findings as annotations of GitHub Actions.
pub(super) fn annotations(place: &ProjectArgs, findings: &Findings) -> String {
    let project = Project::find(&place.project, &mut Findings::new(false)).map(|project| project.dir);
    let project = project.unwrap_or_else(|_| place.project.clone());
    github::annotations(findings, &show::absolute(&project), &show::workspace())
}
