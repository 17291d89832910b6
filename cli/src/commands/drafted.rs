//! Runs the commands that change sources: builds with a draft and writes both together.

use std::process::ExitCode;

use super::{build, show};
use crate::args::{Edit, Format};
use crate::build::{self as builds, Build, Options};
use crate::discover::Project;
use crate::finding::{Findings, Stop};
use crate::output;

/// Runs a build with the changes that `draft` adds to its options. `draft` returns the steps left to the user.
pub(super) fn run(
    args: &Edit,
    draft: impl FnOnce(&Project, &mut Options, &mut Findings) -> Result<Vec<String>, Stop>,
) -> ExitCode {
    let place = &args.place;
    let mut options = Options { write: !args.dry_run, ..build::options(place) };
    // Only errors of the draft are shown; the build that follows reports the warnings again.
    let mut findings = Findings::new(false);
    let left = Project::find(&place.project, &mut findings).and_then(|project| {
        // The files that the draft is based on must not change before it is written.
        options.directory_lock = Some(builds::lock_directory(&project.dir, &mut findings)?);
        if options.write {
            // The draft must not be based on the files of an interrupted run.
            let finished = builds::finish(&project, &mut findings)?;
            if place.format == Format::Human {
                show::out(&output::human::finished(&finished));
            }
        }
        draft(&project, &mut options, &mut findings)
    });
    match left {
        Err(Stop) => {
            let project = Project::find(&place.project, &mut Findings::new(false)).ok();
            let build = Build { project: project.map(|project| project.dir), ..Build::default() };
            build::show(place, &options, &build, &findings, false)
        }
        Ok(left) => {
            let code = build::run_with(place, &options, false);
            if code == ExitCode::SUCCESS && place.format == Format::Human {
                for line in left {
                    show::out(&format!("{line}\n"));
                }
            }
            code
        }
    }
}
