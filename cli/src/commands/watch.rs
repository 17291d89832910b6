//! `koze build --watch`: builds again whenever something changes that a build reads, and survives what it finds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use koze_model::Rule;

use super::{build, show};
use crate::args::{self, Format};
use crate::build::{self as builds, Build};
use crate::finding::Findings;
use crate::output;
use crate::watch::Watcher;

pub(super) fn run(args: &args::Build) -> ExitCode {
    let (place, options) = (&args.place, &build::options(&args.place));
    let mut findings = Findings::new(place.strict);
    let started = package(&options.project).and_then(|package| Ok((Watcher::new(&package)?, package)));
    let (mut watcher, package) = match started {
        Ok(started) => started,
        Err(error) => {
            let _ = findings.fail::<()>(Rule::Io { message: error.to_string() }, None);
            return build::show(place, options, &Build::default(), &findings, false);
        }
    };
    let mut last = None;
    loop {
        // The parser keeps every text for its spans: those of the last build are of no use any more.
        proc_macro2::extra::invalidate_current_thread_spans();
        let mut findings = Findings::new(place.strict);
        let mut built = Build::default();
        let done = builds::run(options, &mut built, &mut findings).is_ok();
        // The same errors once more would push what the user wants to read out of sight.
        let found = output::findings::render(&findings, false, 100);
        if build::drifted(&built) || last.as_ref() != Some(&found) {
            build::show(place, options, &built, &findings, done);
            if place.format == Format::Human {
                show::out("watching for changes; Ctrl-C ends it\n");
            }
            last = Some(found);
        }
        match watcher.follow(&package, &built) {
            // What it did not watch a moment ago may have changed since the build read it.
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

/// The directory of the package that is watched, be it whole or broken.
fn package(project: &Path) -> notify::Result<PathBuf> {
    let dir = fs_err::canonicalize(project)?;
    let package = dir.ancestors().find(|dir| dir.join("Cargo.toml").is_file());
    Ok(package.unwrap_or(&dir).to_owned())
}
