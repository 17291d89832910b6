//! `koze doctor`.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::SystemTime;

use super::{build, local, show};
use crate::args::{self, Format};
use crate::build::{self as builds, Build, Options};
use crate::discover::Project;
use crate::doctor::{self, Check, Status};
use crate::finding::Findings;
use crate::output;

pub(super) fn run(args: &args::Doctor) -> ExitCode {
    let place = &args.place;
    if args.prove {
        return local::prove(place.format);
    }
    let mut findings = Findings::new(place.strict);
    let mut built = Build::default();
    let options = Options { write: false, ..build::options(place) };
    let _ = builds::run(&options, &mut built, &mut findings);
    let config = Project::find(&place.project, &mut Findings::new(false))
        .and_then(|project| builds::config(&project, &options, &mut Findings::new(false)));
    let checks = doctor::examine(&built, &findings, config.as_ref().ok(), SystemTime::now());
    match place.format {
        Format::Json => show::out(&output::json::examination(&checks, &findings)),
        Format::Human => {
            show::findings(&findings);
            show::out(&render_checks(&checks));
        }
        Format::GitHub => show::github(&render_checks(&checks), built.directory(&place.project), &findings),
    }
    let limit = if place.strict { Status::Warning } else { Status::Error };
    ExitCode::from(u8::from(checks.iter().any(|check| check.status >= limit)))
}

/// Renders each check as a line, followed by its remedy.
fn render_checks(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let _ = writeln!(text, "{:<7}  {:width$}  {}", check.status.word(), check.name, check.found);
        if let Some(help) = &check.help {
            let _ = writeln!(text, "{:9}{:width$}  {help}", "", "");
        }
    }
    text
}
