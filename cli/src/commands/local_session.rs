//! The code shared by commands that work with sandboxes on this machine.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use koze_core::{Code, Error, Profiles, SessionId};
use tokio::runtime::{Builder, Runtime};

use super::project;
use super::show;
use crate::args::{self, Format, ProjectArgs};
use crate::discover::Project;
use crate::finding::{Findings, Stop};
use crate::generate;
use crate::provider::{self, EngineKind, Surveyed};
use crate::session::{self, Client, State};

/// A session on this machine.
pub(super) struct LocalSession {
    pub(super) state: State,
    pub(super) session: SessionId,
}

impl LocalSession {
    /// Returns the session that the arguments select. Shows what is wrong with them.
    pub(super) fn find(args: &args::SessionArgs) -> Result<Self, ExitCode> {
        let session = session::session(&args.session)
            .map_err(|error| show::usage(&format!("--session: {}", error.message)))?;
        let state = state(&args.project, args.state.as_deref())?;
        let state = state.with_engine(args.engine.map(EngineKind::from));
        state.engine_of(&session).map_err(|error| failed(&error))?;
        Ok(LocalSession { state, session })
    }

    /// Returns the session that holds the scripts of the selected agent. An agent shares the store of the session with its
    /// name.
    pub(super) fn of_agent(agent: &args::AgentArgs, args: &args::SessionArgs) -> Result<Self, ExitCode> {
        let of_session = Self::find(args)?;
        let Some(agent) = &agent.agent else { return Ok(of_session) };
        let agent =
            session::session(agent).map_err(|error| show::usage(&format!("--agent: {}", error.message)))?;
        Ok(LocalSession { session: agent, ..of_session })
    }

    /// Returns the client of the session's sandboxes.
    pub(super) fn client(&self) -> Client {
        Client::new(self.state.clone(), self.session.clone())
    }
}

impl LocalSession {
    /// Returns the names of its sandboxes. Starts nothing.
    pub(super) fn sandbox_names(&self) -> koze_core::Result<Vec<String>> {
        if !self.state.has(&self.session) {
            return Ok(Vec::new());
        }
        let found = provider::list_sandboxes(&self.state.sandboxes(&self.session))?;
        Ok(found.into_iter().map(|(_, info)| info.name.to_string()).collect())
    }

    /// Describes a sandbox that exists. Starts nothing.
    pub(super) fn survey(&self, name: &str) -> koze_core::Result<Surveyed> {
        let all = if self.state.has(&self.session) {
            provider::survey_sandboxes(&self.state.sandboxes(&self.session))?
        } else {
            Vec::new()
        };
        let names: Vec<_> = all.iter().map(|sandbox| sandbox.id.name.to_string()).collect();
        let found = all.into_iter().find(|sandbox| sandbox.id.name.as_str() == name);
        found.ok_or_else(|| session::no_sandbox_among(name, &names))
    }
}

/// Returns the state directory of a project, or the one that the arguments name. Shows what is wrong with them.
pub(super) fn state(project: &Path, named: Option<&Path>) -> Result<State, ExitCode> {
    let state = if let Some(dir) = named {
        let dir = std::path::absolute(dir);
        State::at(dir.map_err(|error| show::usage(&format!("--state is not a directory: {error}")))?)
    } else {
        State::of(&find_project(project)?.dir)
    };
    state.map_err(|error| failed(&error))
}

/// Returns the package that contains a directory. Shows errors.
pub(super) fn find_project(dir: &Path) -> Result<Project, ExitCode> {
    with_findings(|findings| Project::find(dir, findings))
}

/// Shows the error of a tool or a sandbox, and which state directory it is about.
pub(in crate::commands) fn failed(error: &Error) -> ExitCode {
    let code = show::failed(error);
    note(error);
    code
}

/// Shows which state directory an error is about. Its message does not say so, because a model may read it.
pub(super) fn note(error: &Error) {
    if let Some(state) = session::state::about(error) {
        show::err(&format!("  = note: {state}\n"));
    }
}

/// The profiles that a project offers to agents, and the files that they are in.
pub(super) struct Offered {
    /// The profiles that agents may name.
    pub(super) profiles: Profiles,
    /// The sandbox files.
    pub(super) files: Vec<PathBuf>,
    /// The generated file that a build rewrites when the profiles change.
    pub(super) generated: PathBuf,
}

impl Offered {
    /// Sets the files that new sandboxes have on this machine, if the arguments choose them.
    pub(super) fn on(self, image: Option<args::LocalImage>) -> Self {
        let Some(image) = image else { return self };
        Offered { profiles: self.profiles.with_local_image(image.into()), ..self }
    }
}

/// Returns the profiles that the project's sandbox files declare. Shows errors.
pub(super) fn profiles(args: &args::SessionArgs) -> Result<Profiles, ExitCode> {
    Ok(offered(args)?.profiles)
}

/// Returns the profiles with the files that new sandboxes have on this machine, if the arguments choose them. Shows errors.
pub(super) fn profiles_on(
    args: &args::SessionArgs,
    image: Option<args::LocalImage>,
) -> Result<Profiles, ExitCode> {
    Ok(offered(args)?.on(image).profiles)
}

/// Returns the profiles and the files that declare them. Shows errors.
pub(super) fn offered(args: &args::SessionArgs) -> Result<Offered, ExitCode> {
    let place = ProjectArgs {
        project: args.project.clone(),
        config: args.config.clone(),
        strict: false,
        format: Format::Human,
    };
    let (build, profiles) = with_findings(|findings| project::offered(&place, findings))?;
    let dir = build.directory(&args.project);
    let files = build.sandboxes.iter().map(|sandbox| dir.join(&sandbox.file)).collect();
    Ok(Offered { profiles, files, generated: dir.join(generate::DIR).join("tools.rs") })
}

fn with_findings<T>(look: impl FnOnce(&mut Findings) -> Result<T, Stop>) -> Result<T, ExitCode> {
    let mut findings = Findings::new(false);
    look(&mut findings).map_err(|Stop| {
        show::findings(&findings);
        ExitCode::FAILURE
    })
}

/// Runs a future to completion.
pub(in crate::commands) fn wait<T>(work: impl Future<Output = T>) -> Result<T, ExitCode> {
    Ok(start_runtime()?.block_on(work))
}

/// Starts the runtime of a command.
pub(in crate::commands) fn start_runtime() -> Result<Runtime, ExitCode> {
    Builder::new_current_thread().enable_all().build().map_err(|error| {
        let message = format!("the system is out of resources: {error}");
        failed(&Error::new(Code::Unavailable, message).with_source(error))
    })
}
