//! What a command looks up in a project that it does not change.

use std::path::PathBuf;

use koze::Images;
use koze_model::Rule;

use crate::args::Where;
use crate::build::{self, Build, Options};
use crate::finding::{Findings, Stop};

/// The directory of a project, and the images that its agents may name: as its sandbox files have them, whether or not
/// it is built. No image at all is an error.
pub(super) fn images(place: &Where, findings: &mut Findings) -> Result<(PathBuf, Images), Stop> {
    let mut build = Build::default();
    let options = Options { write: false, ..super::build::options(place) };
    build::run(&options, &mut build, findings)?;
    let dir = build.project.ok_or(Stop)?;
    match build.plan.and_then(|plan| plan.offered) {
        Some(images) => Ok((dir, images)),
        None => findings.fail(Rule::NoImage {}, None),
    }
}
