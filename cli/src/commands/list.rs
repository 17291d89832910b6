//! `koze list`.

use std::process::ExitCode;

use super::show;
use crate::args::{self, Format};
use crate::build::{self, Build, Options};
use crate::finding::Findings;
use crate::output;

pub(super) fn run(args: &args::List) -> ExitCode {
    let mut findings = Findings::new(args.place.strict);
    let mut build = Build::default();
    let options = Options { write: false, worker: false, ..super::build::options(&args.place) };
    let done = build::run(&options, &mut build, &mut findings).is_ok();
    match args.place.format {
        Format::Json => show::out(&output::json::render(&build, &findings)),
        Format::Human => {
            if done {
                show::out(&output::human::listing(&build));
            }
            show::findings(&findings);
        }
        Format::GitHub => {
            let listing = if done { output::human::listing(&build) } else { String::new() };
            show::github(&listing, build.directory(&args.place.project), &findings);
        }
    }
    ExitCode::from(u8::from(!done))
}
