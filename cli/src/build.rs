//! `koze build`, a list of stages: discover, read, plan, write. Each reports all it finds before the next begins.

use std::fs::File;
use std::path::{Path, PathBuf};

use koze_model::image::ImageSource;

use crate::discover::{Project, Sandboxes};
use crate::finding::{Findings, Stop};
use crate::lock::Lock;
use crate::plan::{self, Inputs, Plan};
use crate::sdk::{self, Sdk};
use crate::wrangler::locate::Config;
use crate::write;

/// What to build.
#[derive(Debug, Clone)]
pub struct Options {
    /// A directory in the package.
    pub project: PathBuf,
    /// The wrangler configuration, where it is not the one wrangler would find.
    pub config: Option<PathBuf>,
    /// Whether the changes are written.
    pub write: bool,
}

/// What a build found and did; a stage that was not reached leaves its part empty.
#[derive(Debug, Default)]
pub struct Build {
    /// The package's directory.
    pub project: Option<PathBuf>,
    /// The wrangler configuration, relative to the package.
    pub config: Option<String>,
    /// The SDK version.
    pub sdk: Option<Sdk>,
    /// The sandboxes.
    pub sandboxes: Vec<Summary>,
    /// What changed, or would change.
    pub plan: Option<Plan>,
}

/// One sandbox, in words.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Its file, relative to the package.
    pub file: String,
    /// Its binding.
    pub binding: String,
    /// Its class.
    pub class: String,
    /// Its container application at the top level.
    pub container: String,
    /// Its image.
    pub image: String,
    /// What decided the image.
    pub image_source: ImageSource,
}

/// Builds a project. What was found and done so far is in `build` even where a stage stops.
pub fn run(options: &Options, build: &mut Build, findings: &mut Findings) -> Result<(), Stop> {
    let project = Project::find(&options.project, findings)?;
    build.project = Some(project.dir.clone());
    // Two builds at once take turns; the lock goes with the file handle, and leaves nothing behind.
    let _turn = take_turn(&project.dir, findings)?;

    let sandboxes = project.sandboxes(findings);
    let config = Config::open(&project, options.config.as_deref(), findings);
    let lock = Lock::read(&project, findings);
    build.config = config.as_ref().ok().map(|config| config.shown.clone());
    findings.checked()?;
    let (config, lock) = (config?, lock?);
    if sandboxes.list.is_empty() && lock.is_empty() {
        return Ok(());
    }

    let sdk = sdk::resolve(&project, findings)?;
    build.sdk = Some(sdk.clone());
    let inputs = Inputs {
        project: &project,
        sandboxes: &sandboxes,
        config: &config,
        lock: &lock,
        sdk: &sdk,
        deletions: &[],
    };
    let plan = plan::make(&inputs, findings)?;
    findings.checked()?;
    build.sandboxes = summaries(&sandboxes, &plan);
    if options.write
        && let Err(error) = write::apply(&plan.changes)
    {
        return findings.io(&error);
    }
    build.plan = Some(plan);
    Ok(())
}

fn take_turn(dir: &Path, findings: &mut Findings) -> Result<File, Stop> {
    let turn = fs_err::File::open(dir).map(fs_err::File::into_file).and_then(|dir| dir.lock().map(|()| dir));
    turn.or_else(|error| findings.io(&error))
}

fn summaries(sandboxes: &Sandboxes, plan: &Plan) -> Vec<Summary> {
    sandboxes
        .list
        .iter()
        .zip(plan.images.iter().zip(&plan.containers))
        .map(|(sandbox, (image, container))| Summary {
            file: sandbox.file.clone(),
            binding: sandbox.names.binding.clone(),
            class: sandbox.class.value.clone(),
            container: container.clone(),
            image: image.image.clone(),
            image_source: image.source,
        })
        .collect()
}
