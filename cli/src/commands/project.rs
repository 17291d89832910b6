//! What a command looks up in a project that it does not change.

use std::path::PathBuf;

use koze_core::Images;

use super::show;
use crate::args::Where;
use crate::build::{self, Build, Options};
use crate::discover::Project;
use crate::finding::{Findings, Stop};
use crate::generate;
use crate::output::github;
use crate::rules::Rule;

/// What a project offers to agents.
pub(super) struct Offered {
    /// The images that they may name.
    pub(super) images: Images,
    /// The sandbox files.
    pub(super) files: Vec<PathBuf>,
    /// What a build writes anew when these say something else, or are others.
    pub(super) generated: PathBuf,
}

/// What a project offers to agents: as its sandbox files have it, whether or not it is built. No image at all is an error.
pub(super) fn offered(place: &Where, findings: &mut Findings) -> Result<Offered, Stop> {
    let mut build = Build::default();
    let options = Options { write: false, ..super::build::options(place) };
    build::run(&options, &mut build, findings)?;
    let dir = build.project.ok_or(Stop)?;
    match build.plan.and_then(|plan| plan.offered) {
        Some(images) => {
            let files = build.sandboxes.iter().map(|sandbox| dir.join(&sandbox.file)).collect();
            Ok(Offered { images, files, generated: dir.join(generate::DIR).join("tools.rs") })
        }
        None => findings.fail(Rule::NoImage {}, None),
    }
}

/// The findings as annotations of GitHub Actions.
pub(super) fn annotations(place: &Where, findings: &Findings) -> String {
    let project = Project::find(&place.project, &mut Findings::new(false)).map(|project| project.dir);
    let project = project.unwrap_or_else(|_| place.project.clone());
    github::annotations(findings, &show::absolute(&project), &show::workspace())
}
