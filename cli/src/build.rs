//! `koze build`: discover, read, plan, write. Each stage reports all its findings before the next one starts.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use koze_core::journal::JournalSettings;
use koze_core::provider::LocalImage;
use koze_model::names::Names;
use koze_model::{Kind, Sandbox};

use crate::discover::{Project, Sandboxes};
use crate::draft::{Draft, Storage};
use crate::finding::{Findings, Place, Stop};
use crate::generate;
use crate::home;
use crate::ignored::{self, Hidden};
use crate::images::guest;
use crate::lock::{self, Lock};
use crate::manifest::ScriptTable;
use crate::own::Own;
use crate::plan::{self, Inputs, Plan, Planned};
use crate::platform;
use crate::recover;
use crate::rules::Rule;
use crate::scripts;
use crate::sdk::{self, Sdk};
use crate::wrangler::bindings;
use crate::wrangler::lifecycle;
use crate::wrangler::locate::{self, Config, Given, Origin};
use crate::wrangler::typescript;
use crate::write::{self, Failed, beneath};

/// The inputs of a build.
#[derive(Debug, Clone)]
pub struct Options {
    /// A directory in the package.
    pub project: PathBuf,
    /// The wrangler configuration, if it is not the one that wrangler finds.
    pub config: Option<PathBuf>,
    /// The SDK version, if the caller already knows it.
    pub sdk: Option<Sdk>,
    /// The changes that the command adds to those of the build.
    pub draft: Draft,
    /// Whether to write the changes.
    pub write: bool,
    /// Whether a Worker is built, and not only looked at for the sandboxes of this machine.
    pub worker: bool,
    /// The package's directory lock, if the caller already holds it (see [`lock_directory`]).
    pub directory_lock: Option<Arc<File>>,
    /// Whether the package is in a staging directory, which is moved into place as a whole.
    pub staged: bool,
}

/// The result of a build. Stages that did not run leave their fields empty.
#[derive(Debug, Default)]
pub struct Build {
    /// The package's directory.
    pub project: Option<PathBuf>,
    /// The wrangler configuration, relative to the package.
    pub config: Option<String>,
    /// The SDK version.
    pub sdk: Option<Sdk>,
    /// What the manifest sets for scripts, if the project serves the tools `script`.
    pub script: Option<ScriptTable>,
    /// What the journal of tool calls records.
    pub journal: JournalSettings,
    /// The files that new sandboxes have on this machine.
    pub local_image: LocalImage,
    /// Where scripts run, if the project serves the tools `script`.
    pub scripts: Option<Scripts>,
    /// The sandboxes.
    pub sandboxes: Vec<Planned>,
    /// The files that an interrupted run left unwritten and that this run wrote first.
    pub finished: Vec<String>,
    /// The changes, made or planned.
    pub plan: Option<Plan>,
    /// New files that belong in version control but are ignored by git.
    pub hidden: Vec<Hidden>,
}

/// Where the scripts of a project run, besides this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scripts {
    /// Whether the Worker serves them.
    pub worker: bool,
    /// Whether they run in a dynamic Worker where the Worker has a binding for it.
    pub isolated: bool,
}

impl Build {
    /// Returns the directory that files are relative to: the package's, or the requested one if there is no package.
    pub fn directory<'a>(&'a self, asked: &'a Path) -> &'a Path {
        self.project.as_deref().unwrap_or(asked)
    }
}

/// Builds a project.
///
/// `build` is filled in stage by stage, so it holds the partial result if a stage fails.
///
/// # Errors
/// Returns [`Stop`] if a stage found errors; they are in `findings`.
pub fn run(options: &Options, build: &mut Build, findings: &mut Findings) -> Result<(), Stop> {
    let project = Project::find(&options.project, findings)?;
    build.project = Some(project.dir.clone());
    let _directory_lock = match &options.directory_lock {
        Some(directory_lock) => directory_lock.clone(),
        None => lock_directory(&project.dir, findings)?,
    };
    if options.write {
        build.finished = finish(&project, findings)?;
    }

    build.script.clone_from(&project.script);
    build.journal = project.journal;
    build.local_image = project.local_image;
    let scripts_on_worker = project.worker_scripts().is_some() && options.worker;
    if scripts_on_worker {
        scripts::check(&project, &options.draft, findings);
    }
    let sandboxes = project.sandboxes(&options.draft, findings);
    let lock = Lock::read(&project, findings);
    let config =
        lock.as_ref().map_err(|_| Stop).and_then(|lock| open_config(&project, options, lock, findings));
    build.config = config.as_ref().ok().map(|config| config.shown.clone());
    findings.checked()?;
    let (mut config, mut lock) = (config?, lock?);
    if let Some(text) = &options.draft.config {
        config.replace_text(text);
        lock.forget_migrations();
    }
    build.scripts = project.script.as_ref().map(|script| Scripts {
        worker: script.worker,
        isolated: script.worker && generate::has_loader(&bindings::all(config.document.value())),
    });
    if config.exists() && !lock.has_file() {
        recover::undeclared(&mut lock, &project, &sandboxes, &config);
    }
    let removal = match &options.draft.removal {
        Some(removal) => {
            let class = |name: &String| {
                class_to_remove(name, removal.storage, &project, &sandboxes, &lock, &config, findings)
            };
            let mut classes = removal.names.iter().map(class).collect::<Result<Vec<_>, Stop>>()?;
            // The user may name the same sandbox twice: by its file and by its class.
            classes.sort();
            classes.dedup();
            Some((classes, removal.storage))
        }
        None => None,
    };
    if sandboxes.list.is_empty() && lock.is_empty() && !scripts_on_worker {
        return plan::of_nothing(&project, &config, findings);
    }

    let has_own_guest = |sandbox: &Sandbox| sandbox.attributes.backend().has_own_guest();
    let sdk = match &options.sdk {
        Some(sdk) => Some(sdk.clone()),
        // Nothing needs it, so it may be unknown.
        None if sandboxes.list.is_empty() => sdk::resolve(&project, &mut Findings::new(false)).ok(),
        None if sandboxes.list.iter().all(has_own_guest) => None,
        None => Some(sdk::resolve(&project, findings)?),
    };
    build.sdk.clone_from(&sdk);
    let inputs = Inputs {
        project: &project,
        sandboxes: &sandboxes,
        config: &config,
        lock: &lock,
        sdk: sdk.as_ref(),
        draft: &options.draft,
        removal: removal.as_ref().map(|(classes, storage)| (classes.as_slice(), *storage)),
    };
    let plan = plan::make(&inputs, findings)?;
    findings.checked()?;
    build.sandboxes.clone_from(&plan.sandboxes);
    if options.write {
        let applied = if options.staged {
            write::apply_once(&plan.changes)
        } else {
            write::apply(&project.dir, &plan.changes)
        };
        if let Err(failed) = applied {
            return interrupted(failed, findings);
        }
        if options.config.is_some() && !config.target.starts_with(project.repository()) {
            // Without a record, the next run asks for `--config` again.
            let _ = home::remember_config(&project.dir, &config.target);
        }
        // This run, or one that was killed, may have deleted the last file in them.
        let generated = project.dir.join(generate::DIR);
        let koze = generated.join(generate::KOZE);
        let dirs = [koze.clone(), koze.join(generate::SDK), generated.join(guest::DIR)];
        let dirs: Vec<PathBuf> =
            dirs.iter().filter_map(|dir| beneath::resolve(&project.dir, dir).ok()).collect();
        write::remove_empty(&dirs);
        build.hidden = ignored::hidden(&project.dir, &plan.changes);
    }
    build.plan = Some(plan);
    Ok(())
}

/// Finishes the writes of an interrupted run and returns the files it wrote. The caller must hold the directory lock.
pub(crate) fn finish(project: &Project, findings: &mut Findings) -> Result<Vec<String>, Stop> {
    if write::has_old_journal(&project.dir) {
        findings.add(Rule::OldJournal {}, None);
    }
    write::finish(&project.dir).or_else(|failed| interrupted(failed, findings))
}

/// Reports a failed write and the files that were written before it.
pub(crate) fn interrupted<T>(failed: Failed, findings: &mut Findings) -> Result<T, Stop> {
    let rule = Rule::Interrupted { message: failed.error.to_string(), written: failed.written };
    findings.fail(rule, None)
}

/// Returns the wrangler configuration that a build with these options would edit.
///
/// # Errors
/// Returns [`Stop`] if the configuration or the lock cannot be read.
pub fn config(project: &Project, options: &Options, findings: &mut Findings) -> Result<Config, Stop> {
    let lock = Lock::read(project, findings)?;
    open_config(project, options, &lock, findings)
}

/// Opens the configuration: the given one, the one recorded in the lock, or the one that wrangler finds.
fn open_config(
    project: &Project,
    options: &Options,
    lock: &Lock,
    findings: &mut Findings,
) -> Result<Config, Stop> {
    let locked = lock.config.as_ref().map(|config| project.dir.join(config));
    if let (None, Some(locked), Some(shown)) = (&options.config, &locked, &lock.config)
        && !locked.is_file()
    {
        return findings.fail(Rule::ConfigGone { file: shown.clone() }, None);
    }
    let given = match (&options.config, &locked) {
        (Some(given), _) => Some(Given::ByUser(given)),
        (None, Some(locked)) => Some(lock::named(locked, project, findings)?),
        (None, None) => None,
    };
    let mut config = Config::open(project, given, findings)?;
    if options.staged {
        config.origin = Origin::Staged;
    }
    if config.exists() {
        if !lock.is_empty() {
            config.note_owner(project, locked.as_deref());
        }
        return Ok(config);
    }
    if !lock.is_empty() {
        return findings.fail(Rule::ConfigGone { file: config.shown }, None);
    }
    if options.worker && typescript::exists(project) {
        return findings.fail(Rule::TypeScriptConfig {}, Some(Place::file(typescript::FILE)));
    }
    let strays = locate::strays(project);
    if strays.is_empty() { Ok(config) } else { findings.fail(Rule::ConfigUnnamed { files: strays }, None) }
}

/// Returns the evidence in the lock that a sandbox may have been deployed, if any.
fn deployment_evidence(name: &str, lock: &Lock) -> Option<String> {
    let is_named = |base: &String, class: &String| base == name || class == name;
    if lock.kept.iter().any(|kept| is_named(&kept.name, &kept.class)) {
        return Some("its storage was kept, so there may be some".to_owned());
    }
    let locked = lock.sandboxes.iter().find(|locked| is_named(&locked.name, &locked.class))?;
    // koze always records the container's `name`, unless the lock was lost and recovered.
    let keys = std::iter::once(&locked.keys).chain(locked.environments.values().map(|entry| &entry.keys));
    let theirs = keys.filter(|keys| !keys.is_empty()).any(|keys| !keys.iter().any(|key| key == "name"));
    theirs.then(|| "koze took its container over, which was there before: it may well be deployed".to_owned())
}

/// Finds the class to remove. koze must have created it, and no sandbox file may declare it.
fn class_to_remove(
    name: &str,
    storage: Storage,
    project: &Project,
    sandboxes: &Sandboxes,
    lock: &Lock,
    config: &Config,
    findings: &mut Findings,
) -> Result<String, Stop> {
    let refuse = |why: String, remedy: String| Rule::NotRemovable { name: name.to_owned(), why, remedy };
    let own = Own::ALL.into_iter().filter_map(|own| lock.own(own)).map(|own| (&own.class, &own.class));
    let living = lock.sandboxes.iter().map(|locked| (&locked.name, &locked.class)).chain(own);
    let kept = lock.kept.iter().map(|kept| (&kept.name, &kept.class));
    // Kept storage can be deleted later, but keeping it again would change nothing.
    let mut known: Vec<_> = living.chain(kept.filter(|_| storage == Storage::Delete)).collect();
    let is_named = |base: &String, class: &String| *base == name || *class == name;
    // A class that was removed before its first deployment leaves only its former entry.
    let deleted =
        if storage == Storage::Never { lifecycle::deleted(config.document.value()) } else { BTreeSet::new() };
    let file = |kind: Kind| format!("{}{}", name.replace('/', " "), kind.suffix());
    let names = Kind::ALL.into_iter().filter_map(|kind| Names::of_file(&file(kind)).ok());
    let classes_of_name: Vec<String> = names.map(|names| koze_model::sandbox::class_of(&names)).collect();
    let meant = |class: &&String| **class == name || classes_of_name.contains(*class);
    let declared = |class: &str| sandboxes.list.iter().any(|sandbox| sandbox.class.value == class);
    known.extend(deleted.iter().filter(meant).filter(|class| !declared(class)).map(|class| (class, class)));
    let is_named =
        |base: &String, class: &String| is_named(base, class) || (deleted.contains(class) && meant(&class));
    if storage == Storage::Never
        && let Some(why) = deployment_evidence(name, lock)
    {
        let remedy = "decide about its storage: `--delete-storage` or `--keep-storage`".to_owned();
        return findings.fail(refuse(why, remedy), None);
    }
    if storage == Storage::Keep && lock.kept.iter().any(|kept| is_named(&kept.name, &kept.class)) {
        let remedy =
            format!("nothing to do; to delete its storage, run `koze remove {name} --delete-storage`");
        return findings
            .fail(refuse("it was already removed, and its storage kept".to_owned(), remedy), None);
    }
    let Some((_, class)) = known.iter().find(|(base, class)| is_named(base, class)) else {
        let names: Vec<&str> = known.iter().map(|(base, _)| base.as_str()).collect();
        let remedy = format!("koze has built {}: use one of these names", koze_model::rules::listed(&names));
        return findings.fail(refuse("koze did not build it".to_owned(), remedy), None);
    };
    if let Some(own) = project.enabled().find(|own| own.class() == *class) {
        let why = "`Cargo.toml` enables it".to_owned();
        let remedy = format!("{} first, then run the command again", own.how_not());
        return findings.fail(refuse(why, remedy), Some(Place::file("Cargo.toml".to_owned())));
    }
    if let Some(sandbox) = sandboxes.list.iter().find(|sandbox| sandbox.class.value == **class) {
        let why = format!("`{}` declares it", sandbox.file);
        let remedy = "koze does not delete source files: delete that file first, then run the command again"
            .to_owned();
        return findings.fail(refuse(why, remedy), Some(sandboxes.place(sandbox, sandbox.class.span)));
    }
    let renamed =
        |sandbox: &&Sandbox| sandbox.attributes.renamed_from.as_ref().is_some_and(|old| old.value == **class);
    if let Some(sandbox) = sandboxes.list.iter().find(renamed) {
        let why = format!("its storage now belongs to `{}`", sandbox.class.value);
        let remedy = "remove `renamed_from` from that sandbox to delete the storage".to_owned();
        return findings.fail(refuse(why, remedy), Some(sandboxes.place(sandbox, sandbox.class.span)));
    }
    Ok((*class).clone())
}

/// Waits until no other koze process writes to a directory, and locks it until the handle is closed.
///
/// # Errors
/// Returns [`Stop`] if the directory cannot be opened or locked.
pub fn lock_directory(dir: &Path, findings: &mut Findings) -> Result<Arc<File>, Stop> {
    let directory_lock = platform::directory_lock(dir).and_then(|file| {
        let since = Instant::now();
        while matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            // Builds take milliseconds, so mention only longer waits.
            if since.elapsed() > Duration::from_secs(1) {
                let _ = writeln!(anstream::stderr(), "waiting for another koze process in this directory");
                file.lock()?;
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(file)
    });
    directory_lock.map(Arc::new).or_else(|error| findings.io(&error))
}
