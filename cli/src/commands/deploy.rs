//! `koze deploy`: runs `wrangler deploy` on a project that is up to date.
//!
//! The migrations decide what a deployment does to storage, and the build keeps them correct: declared classes exist,
//! released migrations stay unchanged, and storage is deleted only on request. A project that a build would change or
//! reject is therefore not deployed.

use std::process::{Command, ExitCode};

use koze_model::Level;
use koze_model::rules::listed;
use serde_json::Value;

use super::with_wrangler::{environment, environment_argument, opened, place, ready};
use super::{build, show};
use crate::args;
use crate::build::{self as builds, Build, Options};
use crate::dev::wrangler::Wrangler;
use crate::dev::{tee, wrangler_errors};
use crate::discover::Project;
use crate::finding::Findings;
use crate::lock::Lock;
use crate::platform;
use crate::wrangler::locate::Config;
use crate::wrangler::scope::{self, Scope};

pub(super) fn run(args: &args::Deploy) -> Result<ExitCode, ExitCode> {
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
        return Err(show::failure(
            "the project is not in step: run `koze build`, commit the changes, then deploy",
        ));
    }
    let (project, config) = opened(&place)?;
    let environment = environment(&args.run, &project)?;
    check_environment(environment.as_deref(), &config, &project)?;
    ready(&project, &config, environment.as_deref())?;
    let mut command = wrangler_command(&["deploy"], &config, &project, environment.as_deref());
    command.args(&args.run.wrangler);
    let code = run_wrangler(command, &built, &config, &project)?;
    if code == ExitCode::SUCCESS {
        warn_of_former_containers(&config, &project, environment.as_deref());
        name_tombstones(&config, environment.as_deref());
    }
    Ok(code)
}

/// Returns a command of wrangler for the configuration and environment of a project.
fn wrangler_command(
    words: &[&str],
    config: &Config,
    project: &Project,
    environment: Option<&str>,
) -> Command {
    let Wrangler { program, path } = Wrangler::of(&project.dir);
    let mut command = Command::new(program);
    command.args(words).env("PATH", path).current_dir(&project.dir);
    if config.named {
        command.arg("--config").arg(&config.path);
    }
    command.arg(environment_argument(environment));
    command
}

/// Warns about applications that sandboxes had before their backend became `managed`, if they still exist. A deployment does
/// not delete them.
fn warn_of_former_containers(config: &Config, project: &Project, environment: Option<&str>) {
    let Ok(lock) = Lock::read(project, &mut Findings::new(false)) else { return };
    let former: Vec<&String> = lock.sandboxes.iter().flat_map(|sandbox| &sandbox.former_containers).collect();
    if former.is_empty() {
        return;
    }
    let mut list = wrangler_command(
        &["containers", "list", "--json", "--per-page", "1000"],
        config,
        project,
        environment,
    );
    let output = list.output().ok().filter(|output| output.status.success());
    let applications = output.and_then(|output| serde_json::from_slice::<Vec<Value>>(&output.stdout).ok());
    let Some(applications) = applications else {
        let former = former.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        show::err(&format!(
            "warning: cannot tell whether the former applications still run: {former}\n  = help: `npx wrangler containers list` shows them; each is billed until `npx wrangler containers delete ID`\n"
        ));
        return;
    };
    for application in &applications {
        let text = |key: &str| application.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = text("name");
        if former.iter().any(|former| *former == name) {
            show::err(&format!(
                "warning: the application `{name}` of an earlier deployment still exists, and its containers are billed\n  = help: delete it with `npx wrangler containers delete {}`\n",
                text("id")
            ));
        }
    }
}

/// Names the tombstones of the deployed level, which stay until the user removes them. Only Cloudflare knows which of them a
/// deployment still needs, and wrangler shows that.
fn name_tombstones(config: &Config, environment: Option<&str>) {
    let root = config.document.value();
    let level = environment.and_then(|name| Some((name, root.get("env")?.get(name)?)));
    let scope = match level {
        Some((name, value)) => Scope::of_environment(name, value, root),
        None => Scope::top(root),
    };
    let tombstones = scope.tombstones();
    if tombstones.is_empty() {
        return;
    }
    let (noun, these) =
        if tombstones.len() == 1 { ("a tombstone", "it") } else { ("tombstones", "one of them") };
    show::err(&format!(
        "note: `exports` in {} has {noun} of {}\n  = help: once wrangler has listed {these} under \"Safe to remove from `exports`\" for every environment, remove the entry, and run `koze build`\n",
        config.shown,
        listed(&tombstones)
    ));
}

/// Checks that koze manages the environment. Nothing has checked what deploying another one does to storage.
fn check_environment(environment: Option<&str>, config: &Config, project: &Project) -> Result<(), ExitCode> {
    let Some(name) = environment else { return Ok(()) };
    let mut findings = Findings::new(false);
    let scopes = scope::all(config, project, &mut findings);
    if scopes.is_ok_and(|scopes| scopes.iter().any(|scope| scope.environment.as_deref() == Some(name))) {
        return Ok(());
    }
    let there = config.document.value().get("env").is_some_and(|all| all.get(name).is_some());
    Err(show::failure(&if there {
        format!(
            "koze does not manage the environment `{name}`: add it to `package.metadata.koze.environments` in \
             Cargo.toml, and run `koze build`"
        )
    } else {
        format!("`{}` has no environment `{name}`", config.shown)
    }))
}

/// Runs wrangler, and explains errors whose own text does not say what to do in a koze project.
fn run_wrangler(
    command: Command,
    built: &Build,
    config: &Config,
    project: &Project,
) -> Result<ExitCode, ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.and_then(|runtime| runtime.block_on(tee::run(command)));
    let (status, output) =
        done.map_err(|error| show::failure(&format!("wrangler cannot be started: {error}")))?;
    if !status.success() {
        let worker = config.document.value().get("name").and_then(Value::as_str).unwrap_or(&project.name);
        let explanation = wrangler_errors::explanation(&output, &built.sandboxes, &config.shown, worker);
        show::err(&explanation.unwrap_or_default());
    }
    Ok(platform::to_exit_code(status))
}
