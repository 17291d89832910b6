//! The code shared by `koze dev` and `koze deploy`.

use std::process::ExitCode;

use super::build;
use super::show;
use crate::args::{self, Format, ProjectArgs};
use crate::build as builds;
use crate::dev::{environment, wrangler};
use crate::discover::Project;
use crate::doctor::Status;
use crate::finding::Findings;
use crate::wrangler::locate::Config;

/// Returns the options that locate the project. Rejects arguments that would make only wrangler read another
/// configuration.
pub(super) fn place(run: &args::Run, strict: bool) -> Result<ProjectArgs, ExitCode> {
    for (name, short, ours) in
        [("config", "c", "--config"), ("env", "e", "--env"), ("cwd", "cwd", "--project")]
    {
        // wrangler also accepts a single hyphen, and a value after `=`.
        let says = |arg: &String| {
            let flag = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'));
            flag.and_then(|flag| flag.split('=').next()).is_some_and(|flag| flag == name || flag == short)
        };
        if run.wrangler.iter().any(says) {
            return Err(show::usage(&format!("pass `{ours}` before the `--`, because koze needs it, too")));
        }
    }
    Ok(ProjectArgs {
        project: run.project.clone(),
        config: run.config.clone(),
        strict,
        format: Format::Human,
    })
}

/// Returns the package and its current configuration.
pub(super) fn opened(place: &ProjectArgs) -> Result<(Project, Config), ExitCode> {
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

/// Checks that everything wrangler needs is present, and shows what is missing. Warnings of `koze doctor` do not count.
pub(super) fn ready(project: &Project, config: &Config, environment: Option<&str>) -> Result<(), ExitCode> {
    if !config.exists() {
        return Err(show::failure(
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

/// Returns the selected environment: the named one, or the one that wrangler would choose.
pub(super) fn environment(run: &args::Run, project: &Project) -> Result<Option<String>, ExitCode> {
    match &run.env {
        Some(name) => Ok(Some(name.clone()).filter(|name| !name.is_empty())),
        None => environment::found(&project.dir).map_err(|why| show::failure(&why)),
    }
}

/// Returns wrangler's argument for the environment. It is passed for the top level, too, because wrangler would
/// otherwise choose an environment itself.
pub(super) fn environment_argument(name: Option<&str>) -> String {
    format!("--env={}", name.unwrap_or_default())
}
