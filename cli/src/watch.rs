//! Watches the inputs of a build for changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::build::Build;
use crate::generate;
use crate::plan::Planned;
use crate::sdk;
use crate::write;

/// How long to wait for further changes: editors, git and npm change several files at once.
pub const DEBOUNCE: Duration = Duration::from_millis(50);

/// How long to wait for continuous changes to end before building anyway.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Watches the directories that a build reads from.
pub struct Watcher {
    system: RecommendedWatcher,
    events: Receiver<notify::Result<Event>>,
    watched: BTreeSet<PathBuf>,
    /// The directory whose files only koze writes.
    generated: PathBuf,
}

impl Watcher {
    /// Watches a package and the directories that determine its SDK version.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot watch, for example because a limit is reached.
    pub fn new(package: &Path) -> notify::Result<Self> {
        let (sender, events) = mpsc::channel();
        let system = notify::recommended_watcher(sender)?;
        let generated = package.join(generate::DIR);
        let mut watcher = Watcher { system, events, watched: BTreeSet::new(), generated };
        watcher.follow(package, &Build::default())?;
        Ok(watcher)
    }

    /// Watches newly created directories and those that the last build read elsewhere. Returns whether there were any.
    ///
    /// # Errors
    /// Returns the errors of [`Watcher::new`].
    pub fn follow(&mut self, package: &Path, build: &Build) -> notify::Result<bool> {
        let mut grown = self.add_dir(&package.join("src"), RecursiveMode::Recursive)?;
        let mut dirs = vec![package.to_owned()];
        for dir in package.ancestors() {
            // One level at a time, because npm creates them in this order.
            let modules = dir.join("node_modules");
            let package = modules.join(sdk::PACKAGE);
            if modules.is_dir() || dir.join("package.json").is_file() {
                dirs.extend([dir.to_owned(), modules]);
                dirs.extend(package.parent().map(Path::to_owned));
                dirs.push(package);
            }
        }
        let config = build.config.as_ref().map(|config| package.join(config));
        let config = config.as_deref().and_then(Path::parent);
        let dockerfiles = build.sandboxes.iter().filter_map(Planned::dockerfile);
        dirs.extend(config.map(Path::to_owned));
        dirs.extend(dockerfiles.filter_map(|path| Some(config?.join(path).parent()?.to_owned())));
        for dir in dirs {
            grown |= self.add_dir(&dir, RecursiveMode::NonRecursive)?;
        }
        Ok(grown)
    }

    /// Waits for a change, followed by [`DEBOUNCE`] without one. Returns `false` if watching has ended.
    pub fn wait(&mut self) -> bool {
        loop {
            let Ok(event) = self.events.recv() else { return false };
            if self.is_relevant(event) {
                break;
            }
        }
        let end = Instant::now() + TIMEOUT;
        let mut quiet = Instant::now() + DEBOUNCE;
        loop {
            let left = quiet.min(end).saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            match self.events.recv_timeout(left) {
                Ok(event) => {
                    // Count only relevant events: some programs access the files all the time.
                    if self.is_relevant(event) {
                        quiet = Instant::now() + DEBOUNCE;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Returns whether an event may affect a build. Forgets deleted directories, because they have to be watched again
    /// when they are recreated.
    fn is_relevant(&mut self, event: notify::Result<Event>) -> bool {
        // A lost event may have been a change.
        let Ok(event) = event else { return true };
        if matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(notify::event::ModifyKind::Name(_)))
        {
            self.watched.retain(|dir| dir.is_dir());
        }
        let ours = |path: &PathBuf| path.starts_with(&self.generated) || write::is_temporary(path);
        !matches!(event.kind, EventKind::Access(_)) && !event.paths.iter().all(ours)
    }

    /// Watches a directory if it exists and is not watched yet.
    fn add_dir(&mut self, dir: &Path, mode: RecursiveMode) -> notify::Result<bool> {
        if self.watched.contains(dir) || !dir.is_dir() {
            return Ok(false);
        }
        self.system.watch(dir, mode)?;
        Ok(self.watched.insert(dir.to_owned()))
    }
}
