//! Builds with a container engine of this machine. Engines get their arguments directly: no shell reads any of them.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use koze_image::{Image, Progress, Reference, Store};
use uuid::Uuid;

use super::context::Context;
use super::failure::{Failure, Result};
use crate::args::ContainerEngine;
use crate::images::Recipe;

/// How long an engine may take to say that it is there.
const ANSWER: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(20);
/// The file that an engine writes the image to.
const ARCHIVE: &str = "image.tar";

impl ContainerEngine {
    /// All engines, the preferred ones first.
    pub(crate) const ALL: [ContainerEngine; 3] =
        [ContainerEngine::Docker, ContainerEngine::Podman, ContainerEngine::Buildah];

    /// Returns the name of its program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            ContainerEngine::Docker => "docker",
            ContainerEngine::Podman => "podman",
            ContainerEngine::Buildah => "buildah",
        }
    }

    /// Returns the first engine that is installed and answers.
    pub(crate) fn find() -> Option<ContainerEngine> {
        ContainerEngine::ALL.into_iter().find(|engine| engine.answers())
    }

    /// Returns whether the engine is installed and answers.
    pub(crate) fn answers(self) -> bool {
        let mut command = Command::new(self.program());
        match self {
            // Without its daemon, Docker knows only its own version.
            ContainerEngine::Docker => command.args(["version", "--format", "{{.Server.Version}}"]),
            ContainerEngine::Podman | ContainerEngine::Buildah => command.arg("--version"),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        succeeds_in_time(command).unwrap_or(false)
    }

    /// Returns the arguments that write an image to [`ARCHIVE`] in the current directory, or Docker's to standard output: it may be
    /// confined, and have no access to the directory.
    fn save_arguments(self, tag: &str) -> Vec<OsString> {
        let file = format!("docker-archive:{ARCHIVE}");
        let arguments: &[&str] = match self {
            ContainerEngine::Docker => &["save", tag],
            ContainerEngine::Podman => &["save", "--format", "docker-archive", "-o", ARCHIVE, tag],
            ContainerEngine::Buildah => &["push", tag, &file],
        };
        arguments.iter().map(OsString::from).collect()
    }
}

/// Writes an image of an engine to a file in a directory of the caller. Returns the file.
fn save(engine: ContainerEngine, tag: &str, scratch: &Path) -> Result<PathBuf> {
    let archive = scratch.join(ARCHIVE);
    let output = match engine {
        ContainerEngine::Docker => Some(File::create(&archive).map_err(Failure::at("create", &archive))?),
        ContainerEngine::Podman | ContainerEngine::Buildah => None,
    };
    run(engine, &engine.save_arguments(tag), scratch, output, "write the image to a file")?;
    Ok(archive)
}

/// Copies an image that an engine has into the store.
pub(crate) fn copy_image(
    engine: ContainerEngine,
    store: &Store,
    reference: &Reference,
    progress: &Progress,
) -> Result<Image> {
    let building = store.begin_build()?;
    let scratch = building.create_scratch()?;
    let archive = save(engine, &reference.to_string(), scratch.path())?;
    import_archive(engine, store, &archive, reference, progress)
}

/// Adds the image that an engine wrote to the store.
pub(super) fn import_archive(
    engine: ContainerEngine,
    store: &Store,
    archive: &Path,
    reference: &Reference,
    progress: &Progress,
) -> Result<Image> {
    let imported = store.import(archive, Some(reference), progress)?;
    let no_image = || Failure::new(format!("`{}` wrote no image", engine.program()));
    imported.into_iter().next().map(|(_, image)| image).ok_or_else(no_image)
}

/// Returns the arguments that build an image, which all engines share.
fn build_arguments(recipe: &Recipe, context: &Context, tag: &str, force: bool) -> Vec<OsString> {
    let mut arguments = vec![OsString::from("build")];
    arguments.extend(force.then(|| "--no-cache".into()));
    arguments.extend(["-f".into(), context.dockerfile.clone().into(), "-t".into(), tag.into()]);
    for (name, value) in &recipe.vars {
        arguments.extend(["--build-arg".into(), format!("{name}={value}").into()]);
    }
    arguments.push(context.directory.clone().into());
    arguments
}

/// Builds an image, and writes it to a file in a directory of the caller. Returns the file. The engine keeps its cache, but not the image.
pub(super) fn build_archive(
    engine: ContainerEngine,
    recipe: &Recipe,
    context: &Context,
    scratch: &Path,
    force: bool,
) -> Result<PathBuf> {
    let tag = format!("localhost/koze-build:{}", Uuid::new_v4());
    let build = build_arguments(recipe, context, &tag, force);
    run(engine, &build, scratch, None, &format!("build {}", context.shown))?;
    let saved = save(engine, &tag, scratch);
    // The image is in the store, or was not built. That the name stays in the engine does no harm.
    let mut remove = Command::new(engine.program());
    remove.args(["rmi", &tag]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = remove.status();
    saved
}

/// Runs an engine, whose output goes to a file, or else to standard error.
fn run(
    engine: ContainerEngine,
    arguments: &[OsString],
    directory: &Path,
    output: Option<File>,
    what: &str,
) -> Result<()> {
    let program = engine.program();
    let run = || {
        let output = match output {
            Some(file) => Stdio::from(file),
            None => Stdio::from(io::stderr().as_fd().try_clone_to_owned()?),
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory).stdin(Stdio::null()).stdout(output);
        command.status()
    };
    let status = run().map_err(|error| {
        Failure::new(format!(
            "`{program}` cannot be started: {error}: install it, or choose another `--engine`"
        ))
    })?;
    if status.success() {
        return Ok(());
    }
    let ended = match status.code() {
        Some(code) => format!("exited with {code}"),
        None => "was killed".to_owned(),
    };
    Err(Failure::new(format!("`{program}` {ended} and did not {what}: its messages are above")))
}

/// Runs a command that should be quick.
fn succeeds_in_time(mut command: Command) -> io::Result<bool> {
    let mut child = command.spawn()?;
    let until = Instant::now() + ANSWER;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() > until {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        thread::sleep(INTERVAL);
    }
}
