//! Waits for changes of what a build reads.

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

/// How long nothing must happen after a change: an editor, git or npm changes several files at once.
pub const DEBOUNCE: Duration = Duration::from_millis(50);

/// How long changes may go on before a build runs among them.
const PATIENCE: Duration = Duration::from_secs(1);

/// Watches the directories that a build reads from.
pub struct Watcher {
    system: RecommendedWatcher,
    events: Receiver<notify::Result<Event>>,
    watched: BTreeSet<PathBuf>,
    /// What koze itself writes, whole.
    generated: PathBuf,
}

impl Watcher {
    /// Watches a package, and what the SDK version of its surroundings follows from.
    ///
    /// # Errors
    /// Where the operating system does not watch, for there is a limit on it.
    pub fn new(package: &Path) -> notify::Result<Self> {
        let (sender, events) = mpsc::channel();
        let system = notify::recommended_watcher(sender)?;
        let generated = package.join(generate::DIR);
        let mut watcher = Watcher { system, events, watched: BTreeSet::new(), generated };
        watcher.follow(package, &Build::default())?;
        Ok(watcher)
    }

    /// Watches what has come into being since, and what the last build has read elsewhere; whether there was any.
    ///
    /// # Errors
    /// As [`Watcher::new`].
    pub fn follow(&mut self, package: &Path, build: &Build) -> notify::Result<bool> {
        let mut grown = self.add(&package.join("src"), RecursiveMode::Recursive)?;
        let mut dirs = vec![package.to_owned()];
        for dir in package.ancestors() {
            // One level after the other: npm makes them in this order.
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
            grown |= self.add(&dir, RecursiveMode::NonRecursive)?;
        }
        Ok(grown)
    }

    /// Waits until something has changed, and then has not for [`DEBOUNCE`]. `false`: nothing will ever come.
    pub fn wait(&mut self) -> bool {
        loop {
            let Ok(event) = self.events.recv() else { return false };
            if self.matters(event) {
                break;
            }
        }
        let end = Instant::now() + PATIENCE;
        let mut quiet = Instant::now() + DEBOUNCE;
        loop {
            let left = quiet.min(end).saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            match self.events.recv_timeout(left) {
                Ok(event) => {
                    // Only what matters counts: somebody may be reading the files all the time.
                    if self.matters(event) {
                        quiet = Instant::now() + DEBOUNCE;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Whether a build might find something else now. A directory that goes is forgotten: the next one of its name has
    /// to be watched anew.
    fn matters(&mut self, event: notify::Result<Event>) -> bool {
        // What was lost may have been a change.
        let Ok(event) = event else { return true };
        if matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(notify::event::ModifyKind::Name(_)))
        {
            self.watched.retain(|dir| dir.is_dir());
        }
        let ours = |path: &PathBuf| path.starts_with(&self.generated) || write::is_temporary(path);
        !matches!(event.kind, EventKind::Access(_)) && !event.paths.iter().all(ours)
    }

    /// Watches a directory, if it is there and not watched yet.
    fn add(&mut self, dir: &Path, mode: RecursiveMode) -> notify::Result<bool> {
        if self.watched.contains(dir) || !dir.is_dir() {
            return Ok(false);
        }
        self.system.watch(dir, mode)?;
        Ok(self.watched.insert(dir.to_owned()))
    }
}
