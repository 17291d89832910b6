//! `koze deploy`: `wrangler deploy` of what is in step.
//!
//! What a deployment does to storage stands in the migrations, and those a build answers for: a class that is declared
//! lives, what was written stays, nothing is deleted but what the user said. So a project that a build would change, or
//! refuse, is not deployed.

use std::process::{Command, ExitCode};

use koze_model::Level;

use super::build;
use super::show;
use crate::args::{self, Format, Where};
use crate::build::{self as builds, Build, Options};
use crate::dev::wrangler::{self, Wrangler};
use crate::discover::Project;
use crate::finding::Findings;
use crate::wrangler::locate::Config;
use crate::wrangler::scope;

pub(super) fn run(args: &args::Deploy) -> ExitCode {
    deploy(args).unwrap_or_else(|code| code)
}

fn deploy(args: &args::Deploy) -> Result<ExitCode, ExitCode> {
    let place = place(&args.run, args.strict)?;
    let options = Options { write: false, ..build::options(&place) };
    let mut findings = Findings::new(place.strict);
    let mut built = Build::default();
    let done = builds::run(&options, &mut built, &mut findings).is_ok();
    show::findings(&findings);
    if !done || findings.count(Level::Error) > 0 {
        return Err(ExitCode::FAILURE);
    }
    if build::drifted(&built) {
        build::show(&place, &options, &built, &Findings::new(false), done);
        return Err(failed("not in step: run `koze build` and commit what it changes, then deploy"));
    }
    let (project, config) = opened(&place)?;
    known(args.run.env.as_deref(), &config, &project)?;
    ready(&project, &config)?;
    let Wrangler { program, path } = Wrangler::of(&project.dir);
    let mut command = Command::new(program);
    command.arg("deploy").env("PATH", path).current_dir(&project.dir);
    command.args(
        config.named.then(|| ["--config".into(), config.path.clone().into_os_string()]).into_iter().flatten(),
    );
    command.args(environment(&args.run)).args(&args.run.wrangler);
    Ok(replaced_by(command))
}

/// The environment must be one that koze keeps in step: of another, nobody has looked at what it would do to storage.
fn known(environment: Option<&str>, config: &Config, project: &Project) -> Result<(), ExitCode> {
    let Some(name) = environment else { return Ok(()) };
    let mut findings = Findings::new(false);
    let scopes = scope::all(config, project, &mut findings);
    if scopes.is_ok_and(|scopes| scopes.iter().any(|scope| scope.environment.as_deref() == Some(name))) {
        return Ok(());
    }
    let there = config.document.value().get("env").is_some_and(|all| all.get(name).is_some());
    Err(failed(&if there {
        format!(
            "koze does not look at the environment `{name}`: add it to `package.metadata.koze.environments` in \
             Cargo.toml, and run `koze build`"
        )
    } else {
        format!("`{}` has no environment `{name}`", config.shown)
    }))
}

/// Where the project is. What decides which configuration is read must not be said to wrangler alone.
pub(super) fn place(run: &args::Run, strict: bool) -> Result<Where, ExitCode> {
    for (name, short) in [("--config", "-c"), ("--env", "-e")] {
        let says = |arg: &String| arg == name || arg == short || arg.starts_with(&format!("{name}="));
        if run.wrangler.iter().any(says) {
            show::err(&format!("error: give `{name}` before the `--`: koze has to know it, too\n"));
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

/// Whether everything is there that wrangler needs; what is missing is shown.
pub(super) fn ready(project: &Project, config: &Config) -> Result<(), ExitCode> {
    if !config.exists {
        return Err(failed("there is nothing to run: create a sandbox, `koze add shell`, or see `koze new`"));
    }
    let missing = wrangler::missing(&project.dir, config);
    for check in &missing {
        let help = check.help.as_deref().unwrap_or_default();
        show::err(&format!("error: {}: {}\n  = help: {help}\n", check.name, check.found));
    }
    if missing.is_empty() { Ok(()) } else { Err(ExitCode::FAILURE) }
}

/// What says to wrangler which environment is meant.
pub(super) fn environment(run: &args::Run) -> Vec<&str> {
    run.env.iter().flat_map(|name| ["--env", name]).collect()
}

/// Shows why a command cannot go on.
pub(super) fn failed(why: &str) -> ExitCode {
    show::err(&format!("error: {why}\n"));
    ExitCode::FAILURE
}

/// Becomes another program: its exit code is this one's, and so are the signals it gets.
fn replaced_by(mut command: Command) -> ExitCode {
    #[cfg(unix)]
    let error = std::os::unix::process::CommandExt::exec(&mut command);
    #[cfg(not(unix))]
    let error = match command.status() {
        Ok(status) => {
            return ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        }
        Err(error) => error,
    };
    failed(&format!("wrangler cannot be started: {error}"))
}
