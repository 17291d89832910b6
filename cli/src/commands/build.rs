//! `koze build`.

use std::process::ExitCode;

use super::show;
use crate::args::{self, Format, Where};
use crate::build::{self, Build, Options};
use crate::finding::Findings;
use crate::output;
use crate::write::Action;

pub(super) fn run(args: &args::Build) -> ExitCode {
    let write = !args.check && !args.dry_run;
    run_with(&args.place, &Options { write, ..options(&args.place) }, args.check)
}

/// The options of a build that writes.
pub(super) fn options(place: &Where) -> Options {
    Options {
        project: place.project.clone(),
        config: place.config.clone(),
        sdk: None,
        remove: None,
        write: true,
    }
}

/// Builds and shows what came of it; with `check`, drift is a failure.
pub(super) fn run_with(place: &Where, options: &Options, check: bool) -> ExitCode {
    let mut findings = Findings::new(place.strict);
    let mut build = Build::default();
    let done = build::run(options, &mut build, &mut findings).is_ok();

    let changes = build.plan.as_ref().map_or(&[][..], |plan| &plan.changes);
    let drift = changes.iter().any(|change| change.action() != Action::Unchanged);
    match place.format {
        Format::Json => show::out(&output::json::render(&build, &findings)),
        Format::Human => {
            if done {
                show::out(&output::human::build(&build, options.write));
                if !options.write {
                    show::out(&output::diff::render(changes));
                }
            }
            show::findings(&findings);
            if done && check && drift {
                show::err("not in step: run `koze build` and commit what it changes\n");
            }
        }
    }
    ExitCode::from(u8::from(!done || (check && drift)))
}
