//! `koze build`.

use std::process::ExitCode;

use koze_model::Backend;

use super::show;
use crate::args::{self, Format, ProjectArgs};
use crate::build::{self, Build, Options};
use crate::draft::Draft;
use crate::finding::Findings;
use crate::output;
use crate::sdk;
use crate::write::Action;

pub(super) fn run(args: &args::Build) -> ExitCode {
    let options = Options { write: !args.check && !args.dry_run, ..options(&args.place) };
    let (code, build) = build_and_show(&args.place, &options, args.check);
    let on_sdk = build.sandboxes.iter().any(|sandbox| sandbox.backend == Backend::Sdk);
    if code == ExitCode::SUCCESS && args.place.format == Format::Human && on_sdk {
        show::err(&format!(
            "note: {}. `koze migrate --backend native` moves sandboxes to koze's own guest\n",
            sdk::maintenance()
        ));
    }
    code
}

/// Returns the options of a build that writes.
pub(super) fn options(place: &ProjectArgs) -> Options {
    Options {
        project: place.project.clone(),
        config: place.config.clone(),
        sdk: None,
        draft: Draft::default(),
        write: true,
        worker: true,
        directory_lock: None,
        staged: false,
    }
}

/// Builds and shows the result. With `check`, pending changes are a failure.
pub(super) fn run_with(place: &ProjectArgs, options: &Options, check: bool) -> ExitCode {
    build_and_show(place, options, check).0
}

fn build_and_show(place: &ProjectArgs, options: &Options, check: bool) -> (ExitCode, Build) {
    let mut findings = Findings::new(place.strict);
    let mut build = Build::default();
    let done = build::run(options, &mut build, &mut findings).is_ok();
    let code = show(place, options, &build, &findings, done);
    if done && check && drifted(&build) {
        match place.format {
            Format::Human => {
                show::err("the project is not in step: run `koze build` and commit the changes\n");
            }
            Format::GitHub => show::out(&drift_annotation(place, &build)),
            Format::Json => {}
        }
        return (ExitCode::FAILURE, build);
    }
    (code, build)
}

/// Shows the result of a build.
pub(super) fn show(
    place: &ProjectArgs,
    options: &Options,
    build: &Build,
    findings: &Findings,
    done: bool,
) -> ExitCode {
    match place.format {
        Format::Json => show::out(&output::json::render(build, findings)),
        Format::Human => {
            show::out(&render_result(options, build, done));
            show::findings(findings);
        }
        Format::GitHub => {
            show::github(&render_result(options, build, done), build.directory(&place.project), findings);
        }
    }
    ExitCode::from(u8::from(!done))
}

/// Renders the result of a build for people.
fn render_result(options: &Options, build: &Build, done: bool) -> String {
    let mut text = output::human::finished(&build.finished);
    if done {
        text.push_str(&output::human::build(build, options.write));
        if let (false, Some(plan)) = (options.write, &build.plan) {
            text.push_str(&output::diff::render(&plan.changes));
        }
    }
    text
}

/// Renders the changes of a build as an annotation of GitHub Actions.
fn drift_annotation(place: &ProjectArgs, build: &Build) -> String {
    let changes = build.plan.as_ref().map_or(&[][..], |plan| &plan.changes);
    let project = show::absolute(build.directory(&place.project));
    output::github::drift(changes, &project, &show::workspace())
}

/// Returns whether a build would change anything.
pub(super) fn drifted(build: &Build) -> bool {
    let mut changes = build.plan.iter().flat_map(|plan| &plan.changes);
    changes.any(|change| change.action() != Action::Unchanged)
}
