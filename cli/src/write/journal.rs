//! The journal, which makes changes to several files atomic.
//!
//! It is written when all new contents are on disk and before the first file is replaced, and deleted when all files
//! are replaced. A run that finds a journal finishes the interrupted run, so `koze.lock` and the wrangler configuration
//! never disagree about ownership. If the user has changed one of the files meanwhile, nothing is finished: the files
//! stay as they are, and the build starts from them.

use std::io;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Staged, Step, disk, sweep};
use crate::paths;

/// The file's name, next to the package's `Cargo.toml`.
pub(super) const FILE: &str = ".koze-journal";

/// The pending changes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Journal {
    files: Vec<Change>,
}

/// A pending change of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// The file's path, relative to the package.
    path: String,
    /// The name of the temporary file that replaces it; `None` for a deletion.
    staged: Option<String>,
    /// The hash of the old content; `None` if the file did not exist.
    before: Option<String>,
    /// The hash of the new content.
    after: Option<String>,
}

/// The progress of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Done,
    Pending,
    /// The user changed it before it was replaced, or reverted it afterward.
    Changed,
}

/// Records the staged changes. From here on they will be made, by this run or by the next.
pub(super) fn write(dir: &Path, all: &[Staged]) -> io::Result<()> {
    let entry = |staged: &Staged| Change {
        path: paths::relative(&staged.change.path, dir),
        staged: staged.file.as_deref().map(|file| disk::split(file).1),
        before: staged.change.before.as_deref().map(hash),
        after: staged.change.after.as_deref().map(hash),
    };
    let journal = Journal { files: all.iter().map(entry).collect() };
    let path = dir.join(FILE);
    let staged = disk::stage(&path, &serde_json::to_vec_pretty(&journal)?, None)?;
    disk::rename(&staged, &path)?;
    disk::sync_dir(dir);
    Ok(())
}

/// Deletes the journal after all changes were made.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    disk::remove_file(&dir.join(FILE))
}

/// Returns the steps that the previous run left undone; `None` if there is no journal or nothing to finish.
pub(super) fn read(dir: &Path) -> io::Result<Option<Vec<Step>>> {
    let path = dir.join(FILE);
    sweep(&path);
    let Some(text) = disk::read(&path)? else { return Ok(None) };
    // The journal is written atomically, so an unreadable one comes from another version, whose intent is unknown.
    let Ok(journal) = serde_json::from_slice::<Journal>(&text) else { return Ok(Some(Vec::new())) };
    let mut pending = Vec::new();
    for entry in &journal.files {
        let step = entry.step(dir);
        match entry.state(&step)? {
            Progress::Done => {}
            Progress::Pending => pending.push(step),
            Progress::Changed => {
                journal.files.iter().for_each(|entry| sweep(&entry.step(dir).target));
                return Ok(Some(Vec::new()));
            }
        }
    }
    Ok(Some(pending))
}

impl Change {
    fn step(&self, dir: &Path) -> Step {
        let target = paths::normal(&dir.join(&self.path));
        let staged = self.staged.as_deref().map(|name| target.with_file_name(name));
        Step { target, shown: self.path.clone(), staged }
    }

    fn state(&self, step: &Step) -> io::Result<Progress> {
        let now = hash_of(&step.target)?;
        let as_before = now == self.before;
        if now == self.after {
            return Ok(Progress::Done);
        }
        let Some(staged) = &step.staged else {
            // Whatever the journal says, never delete a file outside the package.
            let ours = self.after.is_none() && !self.leads_out();
            return Ok(if as_before && ours { Progress::Pending } else { Progress::Done });
        };
        let staged =
            if disk::is_staged(&disk::split(staged).1, &step.target) { hash_of(staged)? } else { None };
        Ok(match (staged == self.after, as_before) {
            (true, true) => Progress::Pending,
            // It was replaced, and then edited: the same as after any other build.
            (false, false) if staged.is_none() => Progress::Done,
            _ => Progress::Changed,
        })
    }

    fn leads_out(&self) -> bool {
        let mut parts = Path::new(&self.path).components();
        parts.any(|part| !matches!(part, Component::Normal(_)))
    }
}

fn hash_of(path: &Path) -> io::Result<Option<String>> {
    Ok(disk::read(path)?.as_deref().map(hash))
}

fn hash(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
