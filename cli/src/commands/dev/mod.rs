//! `koze dev`: runs the Worker on this machine and rebuilds after each change.

#[cfg_attr(namespaces, path = "local.rs")]
#[cfg_attr(not(namespaces), path = "elsewhere.rs")]
mod local;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::thread;

use koze_model::image::ImageSource;

use super::with_wrangler::{environment, environment_argument, opened, place, ready};
use super::{build, show, watch};
use crate::args::{self, ProjectArgs};
use crate::build::{self as builds, Build};
use crate::dev::login;
use crate::dev::secrets;
use crate::dev::wrangler::Wrangler;
use crate::discover::{DOCKERFILE, Project};
use crate::doctor::tools;
use crate::finding::Findings;
use crate::platform;
use crate::wrangler::locate::Config;

/// The stack size of the thread that builds. Deeply nested Rust source overflows the default one.
const STACK: usize = 256 << 20;

pub(super) fn run(args: &args::Dev) -> Result<ExitCode, ExitCode> {
    let place = place(&args.run, false)?;
    let options = build::options(&place);
    let mut findings = Findings::new(false);
    let mut built = Build::default();
    let done = builds::run(&options, &mut built, &mut findings).is_ok();
    build::show(&place, &options, &built, &findings, done);
    if !done {
        return Err(ExitCode::FAILURE);
    }
    let (project, config) = opened(&place)?;
    let environment = environment(&args.run, &project)?;
    ready(&project, &config, environment.as_deref())?;
    let found = watch::found(&findings);
    let started = Started { args, place, project, config, environment, built, found };
    if args.local { local::on_this_machine(&started) } else { in_containers(&started) }
}

/// A project that has been built and can run.
struct Started<'a> {
    args: &'a args::Dev,
    place: ProjectArgs,
    project: Project,
    config: Config,
    /// The environment to serve.
    environment: Option<String>,
    built: Build,
    /// The findings of the build.
    found: String,
}

impl Started<'_> {
    /// Returns whether the project configures its own token.
    fn has_token(&self) -> bool {
        secrets::have_token(self.config.document.value(), self.environment.as_deref(), self.config.dir())
    }
}

fn in_containers(started: &Started) -> Result<ExitCode, ExitCode> {
    if !tools::runs_containers() {
        return Err(show::failure(&format!(
            "no Docker engine is running, and `koze dev` runs sandboxes in containers: {}",
            platform::without_docker()
        )));
    }
    if !started.has_token() {
        show::err(
            "koze dev: KOZE_TOKEN is not set, so every route of koze's returns 503: add `KOZE_TOKEN=` with at least 16 characters to .dev.vars\n",
        );
    }
    if !login::is_there(&started.project.dir) {
        show::err(&explain_pulls(&started.built));
    }
    let mut arguments: Vec<OsString> = Vec::new();
    if started.config.named {
        arguments.extend(["--config".into(), started.config.path.clone().into_os_string()]);
    }
    rebuild_on_change(started, |_| ());
    run_wrangler_dev(started, arguments)
}

/// Explains that wrangler needs a login to pull an image, and how to do without: an image that it builds needs none.
fn explain_pulls(built: &Build) -> String {
    let mut text = String::new();
    for sandbox in built.sandboxes.iter().filter(|sandbox| !sandbox.is_built()) {
        let dockerfile = sandbox.file.replace(sandbox.kind.suffix(), DOCKERFILE);
        let first = match sandbox.image_source {
            ImageSource::Attribute => "; remove `image` from its attribute",
            ImageSource::Variant => "; remove `variant` from its attribute",
            ImageSource::Configuration => "; remove `image` from its container",
            ImageSource::SiblingDockerfile | ImageSource::Default => "",
        };
        let _ = writeln!(
            text,
            "koze dev: wrangler pulls `{image}` of {file} only with a Cloudflare login (`npx wrangler login`). A Dockerfile next to the {kind} does not need one: echo 'FROM {image}' > {dockerfile}{first}",
            kind = sandbox.kind,
            image = sandbox.image,
            file = sandbox.file,
        );
    }
    text
}

/// Rebuilds after each change in a background thread, and passes each build to the callback.
fn rebuild_on_change(started: &Started, mut on_build: impl FnMut(&Build) + Send + 'static) {
    let Started { place, found, .. } = started;
    let place = ProjectArgs { project: place.project.clone(), config: place.config.clone(), ..*place };
    let found = Some(found.clone());
    let building = thread::Builder::new().name("koze-build".into()).stack_size(STACK).spawn(move || {
        watch::follow(&place, found, |built, _| {
            on_build(built);
            true
        })
    });
    if let Err(error) = building {
        show::err(&format!("warning: changes are not watched: {error}\n"));
    }
}

/// Runs `wrangler dev` until it exits.
fn run_wrangler_dev(started: &Started, mut arguments: Vec<OsString>) -> Result<ExitCode, ExitCode> {
    let Started { args, project, environment, .. } = started;
    let Wrangler { program, path } = Wrangler::of(&project.dir);
    arguments.insert(0, "dev".into());
    if let Some(port) = args.port {
        arguments.extend(["--port".into(), port.to_string().into()]);
    }
    arguments.push(environment_argument(environment.as_deref()).into());
    arguments.extend(args.run.wrangler.iter().map(OsString::from));
    let unstarted = |error: std::io::Error| show::failure(&format!("wrangler cannot be run: {error}"));
    local::run(&program, |command| {
        command.args(arguments).env("PATH", path).current_dir(&project.dir);
    })
    .map_err(unstarted)
}
