//! `koze build`.

use std::process::ExitCode;

use super::show;
use crate::args::{self, Format};
use crate::build::{self, Build, Options};
use crate::finding::Findings;
use crate::output;
use crate::write::Action;

pub(super) fn run(args: &args::Build) -> ExitCode {
    let mut findings = Findings::new(args.place.strict);
    let mut build = Build::default();
    let write = !args.check && !args.dry_run;
    let options = Options { project: args.place.project.clone(), config: args.place.config.clone(), write };
    let done = build::run(&options, &mut build, &mut findings).is_ok();

    let changes = build.plan.as_ref().map_or(&[][..], |plan| &plan.changes);
    let drift = changes.iter().any(|change| change.action() != Action::Unchanged);
    match args.place.format {
        Format::Json => show::out(&output::json::render(&build, &findings)),
        Format::Human => {
            if done {
                show::out(&output::human::build(&build, write));
                if !write {
                    show::out(&output::diff::render(changes));
                }
            }
            show::findings(&findings);
            if done && args.check && drift {
                show::out("not in step: run `koze build` and commit what it changes\n");
            }
        }
    }
    ExitCode::from(u8::from(!done || (args.check && drift)))
}
