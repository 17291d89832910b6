//! `koze dev --local`: runs the Worker with sandboxes on this machine. `elsewhere.rs` is its counterpart on systems other
//! than Linux.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use koze_core::provider::Profile;
use koze_core::{Code, Error};
use koze_model::Kind;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{Started, rebuild_on_change, run_wrangler_dev};
use crate::args::{self, ProjectArgs};
use crate::build::Build;
use crate::commands::build::drifted;
use crate::commands::local::local_session;
use crate::commands::show;
use crate::commands::with_wrangler::opened;
use crate::dev::stage::{Content, Stage};
use crate::dev::{guard, token};
use crate::platform;
use crate::provider::{self, Objects};
use crate::session::{self, State};

/// The session that holds the Worker's sandboxes, visible to `koze call` and the like.
const SESSION: &str = "dev";
/// The variable that holds the Worker's bearer token.
const TOKEN: &str = "KOZE_TOKEN";

/// The configuration, and the class and profile of each sandbox.
type Staged = (Value, Vec<(String, Profile)>);

/// The state of a local run next to wrangler.
struct Run {
    place: ProjectArgs,
    environment: Option<String>,
    stage: Arc<Stage>,
    objects: Arc<Objects>,
    vars: Vec<(&'static str, Value)>,
    /// The last staged configuration and profiles.
    staged: Option<Staged>,
}

pub(super) fn on_this_machine(started: &Started) -> Result<ExitCode, ExitCode> {
    let Started { args, config, built, .. } = started;
    let mut run = Run::new(started)?;
    run.on_build(built)?;
    run.print_access();
    let stage = Arc::clone(&run.stage);
    let mut arguments: Vec<OsString> = vec!["--config".into(), stage.config().into()];
    if !has_persist_flag(&args.run) {
        // The default directory of `wrangler dev`. wrangler would place it next to the staged configuration, which is
        // deleted at exit.
        arguments.extend(["--persist-to".into(), config.dir().join(".wrangler/state").into()]);
    }
    rebuild_on_change(started, move |built| {
        // The errors were shown; the next change may fix them.
        let _ = run.on_build(built);
    });
    let code = run_wrangler_dev(started, arguments);
    stage.clear();
    code
}

/// Runs wrangler until it exits. All its descendants end with it, and it ends with this process.
pub(super) fn run(program: &Path, configure: impl FnOnce(&mut Command)) -> io::Result<ExitCode> {
    local_session::wait(async {
        let mut child = guard::start(program, configure)?;
        guard::wait(&mut child).await.map(platform::to_exit_code)
    })
    // This error was shown.
    .unwrap_or_else(Ok)
}

/// Starts the server of the sandboxes.
fn start_server(state: &State) -> koze_core::Result<Objects> {
    state.make()?;
    let session = session::session(SESSION)?;
    provider::serve_objects(&state.sandboxes(&session), state.secrets(), session)
}

/// Returns whether the arguments already set wrangler's `--persist-to`.
fn has_persist_flag(run: &args::Run) -> bool {
    run.wrangler.iter().any(|arg| arg.starts_with("--persist"))
}

impl Run {
    fn new(started: &Started) -> Result<Self, ExitCode> {
        let Started { args, place, project, config, environment, .. } = started;
        let nowhere = |error| show::failure(&format!("--state is not a directory: {error}"));
        let kept = match &args.state {
            Some(dir) => State::at(std::path::absolute(dir).map_err(nowhere)?),
            None => State::of(&project.dir),
        };
        let kept = kept.map_err(|error| local_session::failed(&error))?;
        let stage = Arc::new(Stage::new(config.dir()).map_err(|why| show::failure(&why.to_string()))?);
        let objects = Arc::new(start_server(&kept).map_err(|error| local_session::failed(&error))?);
        // One variable, with the token last: wrangler prints only the beginning of long values.
        let server = json!({ "url": objects.url(), "token": objects.token() });
        let mut vars = vec![("KOZE_LOCAL", server)];
        if !started.has_token() {
            let unkept = |error| show::failure(&format!("cannot store a token: {error}"));
            vars.push((TOKEN, json!(token::remembered(kept.dir()).map_err(unkept)?)));
        }
        let place = ProjectArgs { project: place.project.clone(), config: place.config.clone(), ..*place };
        Ok(Run { place, environment: environment.clone(), stage, objects, vars, staged: None })
    }

    /// Prints how to reach the Worker.
    fn print_access(&self) {
        show::err(&format!(
            "koze dev: sandboxes run on this machine: `koze sandboxes --session {SESSION}`\n"
        ));
        show::err(&match self.vars.iter().find(|(name, _)| *name == TOKEN) {
            Some((_, token)) => {
                format!("koze dev: Authorization: Bearer {}\n", token.as_str().unwrap_or_default())
            }
            None => {
                "koze dev: the bearer token is the one in the project's variables or secrets\n".to_owned()
            }
        });
    }

    /// Applies a successful build.
    fn on_build(&mut self, built: &Build) -> Result<(), ExitCode> {
        let Some(plan) = &built.plan else { return Ok(()) };
        let (_, config) = opened(&self.place)?;
        // A service needs a container, so its class stays the one of the entry point, which says so.
        let classes = plan.sandboxes.iter().filter(|planned| planned.kind == Kind::Sandbox);
        let classes = classes
            .flat_map(|planned| planned.provided.iter().map(|one| (planned.class.clone(), one)))
            .map(|(class, one)| (class, Profile { local_image: built.local_image, ..one.clone() }))
            .collect();
        let now: Staged = (config.document.value().clone(), classes);
        if self.staged.as_ref() == Some(&now) && !drifted(built) {
            return Ok(());
        }
        let (objects, classes) = (Arc::clone(&self.objects), now.1.clone());
        let done = provider::block_on(async move { objects.follow(classes).await }).and_then(|done| done);
        // A class with several images is listed once for each.
        let mut names: Vec<&str> = now.1.iter().map(|(class, _)| class.as_str()).collect();
        names.dedup();
        let environment = self.environment.as_deref();
        let scripts = built.scripts.is_some_and(|scripts| scripts.worker);
        let browser = scripts && built.script.as_ref().is_some_and(|script| script.browser);
        let programs = provider::find_programs(now.1.iter().map(|(_, profile)| profile));
        let mut vars = self.vars.clone();
        vars.push(("KOZE_LOCAL_PROGRAMS", json!(programs)));
        let content = Content { config: &now.0, environment, classes: &names, scripts, browser, vars: &vars };
        let staged = done.and_then(|()| {
            let failed =
                |error| Error::new(Code::Unavailable, format!("cannot prepare files for wrangler: {error}"));
            self.stage.write(&content).map_err(failed)
        });
        staged.map_err(|error| local_session::failed(&error))?;
        self.staged = Some(now);
        Ok(())
    }
}
