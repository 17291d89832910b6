//! The journal: what makes several files change together.
//!
//! It is written when all new contents are on the disk and no file is replaced yet, and goes when all are. A run that
//! finds one finishes what the run before it had begun, so `koze.lock` and the wrangler configuration never disagree
//! about who owns what. Where somebody changed a file that was still to be replaced, or took back one that was, nothing is
//! finished: the files stay as they are, and the build sees for itself what is there.

use std::io;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Staged, Step, disk, sweep};
use crate::paths;

/// The file's name, beside the package's `Cargo.toml`.
pub(super) const FILE: &str = ".koze-journal";

/// What is to become of files.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Journal {
    files: Vec<Entry>,
}

/// What is to become of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Where it lies, relative to the package.
    path: String,
    /// The name of the file beside it that is to take its place; none where it is to go.
    staged: Option<String>,
    /// Hash of what stood in it; none where there was no file.
    before: Option<String>,
    /// Hash of what is to stand in it.
    after: Option<String>,
}

/// How far a file has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Done,
    Pending,
    /// Somebody changed it before its turn, or took it back after.
    Changed,
}

/// Records what is staged. From here on it will be done, by this run or by the next.
pub(super) fn write(dir: &Path, all: &[Staged]) -> io::Result<()> {
    let entry = |staged: &Staged| Entry {
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

/// Takes the journal away: nothing is left to do.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    disk::remove_file(&dir.join(FILE))
}

/// The steps that the run before has left undone; none where there is no journal, or nothing is to be finished.
pub(super) fn read(dir: &Path) -> io::Result<Option<Vec<Step>>> {
    let path = dir.join(FILE);
    sweep(&path);
    let Some(text) = disk::read(&path)? else { return Ok(None) };
    // It is written as a whole: one that does not read is another version's, and what that had in mind is not known.
    let Ok(journal) = serde_json::from_slice::<Journal>(&text) else { return Ok(Some(Vec::new())) };
    let mut pending = Vec::new();
    for entry in &journal.files {
        let step = entry.step(dir);
        match entry.state(&step)? {
            State::Done => {}
            State::Pending => pending.push(step),
            State::Changed => {
                journal.files.iter().for_each(|entry| sweep(&entry.step(dir).target));
                return Ok(Some(Vec::new()));
            }
        }
    }
    Ok(Some(pending))
}

impl Entry {
    fn step(&self, dir: &Path) -> Step {
        let target = paths::normal(&dir.join(&self.path));
        let staged = self.staged.as_deref().map(|name| target.with_file_name(name));
        Step { target, shown: self.path.clone(), staged }
    }

    fn state(&self, step: &Step) -> io::Result<State> {
        let now = hash_of(&step.target)?;
        let as_before = now == self.before;
        if now == self.after {
            return Ok(State::Done);
        }
        let Some(staged) = &step.staged else {
            // Whoever wrote the journal, no file outside of the package is removed on its word.
            let ours = self.after.is_none() && !self.leads_out();
            return Ok(if as_before && ours { State::Pending } else { State::Done });
        };
        let staged =
            if disk::is_staged(&disk::split(staged).1, &step.target) { hash_of(staged)? } else { None };
        Ok(match (staged == self.after, as_before) {
            (true, true) => State::Pending,
            // It took its place, and was edited there: as after any other build.
            (false, false) if staged.is_none() => State::Done,
            _ => State::Changed,
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
