//! `koze build --watch`: rebuilds whenever an input of the build changes, also after errors.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{build, show};
use crate::args::{self, Format, ProjectArgs};
use crate::build::{self as builds, Build};
use crate::finding::Findings;
use crate::output;
use crate::paths;
use crate::rules::Rule;
use crate::watch::Watcher;

pub(super) fn run(args: &args::Build) -> ExitCode {
    let human = args.place.format == Format::Human;
    let on_build = |_: &Build, shown: bool| {
        !shown || !human || show::told("watching for changes; press Ctrl-C to stop\n")
    };
    follow(&args.place, None, on_build)
}

/// Builds after each change until `on_build` returns false. Passes it each build and whether the findings were shown;
/// findings that equal `last` are not shown again.
pub(super) fn follow(
    place: &ProjectArgs,
    mut last: Option<String>,
    mut on_build: impl FnMut(&Build, bool) -> bool,
) -> ExitCode {
    let options = &build::options(place);
    let mut findings = Findings::new(place.strict);
    let started = package_dir(&options.project).and_then(|package| Ok((Watcher::new(&package)?, package)));
    let (mut watcher, package) = match started {
        Ok(started) => started,
        Err(error) => {
            let kind = match &error.kind {
                notify::ErrorKind::Io(error) => error.kind(),
                _ => std::io::ErrorKind::Other,
            };
            findings.add(Rule::Io { message: error.to_string(), kind }, None);
            return build::show(place, options, &Build::default(), &findings, false);
        }
    };
    loop {
        // The parser keeps the source text of all spans. Those of the last build are no longer needed.
        proc_macro2::extra::invalidate_current_thread_spans();
        let mut findings = Findings::new(place.strict);
        let mut built = Build::default();
        let done = builds::run(options, &mut built, &mut findings).is_ok();
        // Repeating the same errors would scroll away what the user wants to read.
        let found = found(&findings);
        let shown = build::drifted(&built) || last.as_ref() != Some(&found);
        if shown {
            build::show(place, options, &built, &findings, done);
            last = Some(found);
        }
        if !on_build(&built, shown) {
            return ExitCode::SUCCESS;
        }
        match watcher.follow(&package, &built) {
            // A path that is newly watched may have changed since the build read it.
            Ok(true) => {}
            Ok(false) if watcher.wait() => {}
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => {
                show::err(&format!("error: not every directory can be watched: {error}\n"));
                return ExitCode::FAILURE;
            }
        }
    }
}

/// Renders the findings of a build for comparison with those of the next one.
pub(super) fn found(findings: &Findings) -> String {
    output::findings::render(findings, false, 100)
}

/// Returns the directory to watch, whether or not the package is valid.
fn package_dir(project: &Path) -> notify::Result<PathBuf> {
    let dir = paths::canonical(project)?;
    let package = dir.ancestors().find(|dir| dir.join("Cargo.toml").is_file());
    Ok(package.unwrap_or(&dir).to_owned())
}
