//! What `koze dev` and `koze deploy` share.

use std::process::ExitCode;

use super::build;
use super::show;
use crate::args::{self, Format, Where};
use crate::build as builds;
use crate::dev::{environment, wrangler};
use crate::discover::Project;
use crate::doctor::Status;
use crate::finding::Findings;
use crate::wrangler::locate::Config;

/// Where the project is. What decides which configuration is read must not be said to wrangler alone.
pub(super) fn place(run: &args::Run, strict: bool) -> Result<Where, ExitCode> {
    for (name, short, ours) in
        [("config", "c", "--config"), ("env", "e", "--env"), ("cwd", "cwd", "--project")]
    {
        // wrangler takes one hyphen for two, and a value behind a sign of equality.
        let says = |arg: &String| {
            let said = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'));
            said.and_then(|said| said.split('=').next()).is_some_and(|said| said == name || said == short)
        };
        if run.wrangler.iter().any(says) {
            show::err(&format!("error: pass `{ours}` before the `--`, because koze needs it, too\n"));
            return Err(ExitCode::from(2));
        }
    }
    Ok(Where { project: run.project.clone(), config: run.config.clone(), strict, format: Format::Human })
}

/// The package, and the configuration as it stands now.
pub(super) fn opened(place: &Where) -> Result<(Project, Config), ExitCode> {
    let mut findings = Findings::new(false);
    let found = Project::find(&place.project, &mut findings).and_then(|project| {
        let config = builds::config(&project, &build::options(place), &mut findings)?;
        Ok((project, config))
    });
    found.map_err(|_| {
        show::findings(&findings);
        ExitCode::FAILURE
    })
}

/// Whether everything is there that wrangler needs; what is missing is shown, and what `koze doctor` only warns of is no
/// reason to stop.
pub(super) fn ready(project: &Project, config: &Config, environment: Option<&str>) -> Result<(), ExitCode> {
    if !config.exists {
        return Err(failed(
            "the project has no sandboxes: create one with `koze add shell`, or a project with `koze new`",
        ));
    }
    let missing = wrangler::missing(&project.dir, config, environment);
    for check in &missing {
        let help = check.help.as_deref().unwrap_or_default();
        show::err(&format!("{}: {}: {}\n  = help: {help}\n", check.status.word(), check.name, check.found));
    }
    let stops = missing.iter().any(|check| check.status == Status::Error);
    if stops { Err(ExitCode::FAILURE) } else { Ok(()) }
}

/// The environment that is meant: the one that is named, or else the one that wrangler would find.
pub(super) fn environment(run: &args::Run, project: &Project) -> Result<Option<String>, ExitCode> {
    match &run.env {
        Some(name) => Ok(Some(name.clone()).filter(|name| !name.is_empty())),
        None => environment::found(&project.dir).map_err(|why| failed(&why)),
    }
}

/// What says it to wrangler, also where it is the top level: it would look for another one by itself.
pub(super) fn environment_argument(name: Option<&str>) -> String {
    format!("--env={}", name.unwrap_or_default())
}

/// Shows why a command cannot go on.
pub(super) fn failed(why: &str) -> ExitCode {
    show::err(&format!("error: {why}\n"));
    ExitCode::FAILURE
}
