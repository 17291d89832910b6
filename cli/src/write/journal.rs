//! The journal, which makes changes to several files atomic.
//!
//! It is written when all new contents are on disk and before the first file is replaced, and deleted when all files
//! are replaced. A run that finds a journal finishes the interrupted run, so `koze.lock` and the wrangler configuration
//! never disagree about ownership. If the user has changed one of the files meanwhile, nothing is finished: the files
//! stay as they are, and the build starts from them.
//!
//! It is in koze's state directory and belongs to one package: a file in the package could be somebody else's, and its
//! instructions would be followed with the rights of this user.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Staged, Step, beneath, disk, input, sweep_beside};
use crate::home;
use crate::images::guest;
use crate::paths;

/// The journal of earlier versions, next to the package's `Cargo.toml`. It is never followed.
pub(super) const OLD_FILE: &str = ".koze-journal";

/// The suffix of journals in the state directory.
const SUFFIX: &str = "journal";

/// The pending changes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Journal {
    /// The package's directory.
    package: String,
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
///
/// Returns the journal's path; `None` if this user has no state directory in which koze can write.
pub(super) fn write(dir: &Path, all: &[Staged]) -> io::Result<Option<PathBuf>> {
    let entry = |staged: &Staged| Change {
        path: paths::relative(&staged.change.path, dir),
        staged: staged.file.as_deref().map(|file| disk::split(file).1),
        before: staged.change.before.as_deref().map(hex_digest),
        after: staged.change.after.as_deref().map(hex_digest),
    };
    let journal = Journal { package: lossy_path(dir), files: all.iter().map(entry).collect() };
    let path = match home::file(dir, SUFFIX) {
        Ok(path) => path,
        Err(why) => return go_without(&why),
    };
    let staged = home::create_dir_of(&path)
        .and_then(|()| disk::stage(&path, &serde_json::to_vec_pretty(&journal)?, None));
    match staged {
        Ok(staged) => disk::rename(&staged, &path)?,
        Err(error) if is_unusable(error.kind()) => return go_without(&error),
        Err(error) => return Err(error),
    }
    disk::sync_dir(disk::split(&path).0);
    Ok(Some(path))
}

/// Returns whether an error means that a directory cannot be used, and not that something failed now.
fn is_unusable(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(kind, NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem)
}

/// Says that this run has no journal. Each file is still written completely or not at all.
#[expect(clippy::unnecessary_wraps, reason = "it ends a function that returns a result")]
fn go_without(why: &io::Error) -> io::Result<Option<PathBuf>> {
    use io::Write as _;
    let _ = writeln!(
        anstream::stderr(),
        "note: koze's state directory cannot be used ({why}): if this run is killed, the next one cannot finish it"
    );
    Ok(None)
}

/// Deletes a journal after all changes were made.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    disk::remove_file(path)
}

/// Returns the journal's path and the steps that the previous run left undone; `None` if there is no journal.
pub(super) fn read(dir: &Path) -> io::Result<Option<(PathBuf, Vec<Step>)>> {
    let path = if beneath::is_left_out() { Ok(dir.join(OLD_FILE)) } else { home::file(dir, SUFFIX) };
    let Ok(path) = path else { return Ok(None) };
    sweep_beside(&path);
    let text = match disk::read(&path) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(None),
        // No run could write one.
        Err(error) if is_unusable(error.kind()) => return Ok(None),
        Err(error) => return Err(error),
    };
    let steps = unfinished_steps(dir, &text)?;
    Ok(Some((path, steps)))
}

/// Returns the steps that are left of a journal. Returns none if it cannot be followed.
fn unfinished_steps(dir: &Path, text: &[u8]) -> io::Result<Vec<Step>> {
    // The journal is written atomically, so an unreadable one comes from another version, whose intent is unknown.
    let Ok(journal) = serde_json::from_slice::<Journal>(text) else { return Ok(Vec::new()) };
    let steps: Option<Vec<Step>> = journal.files.iter().map(|entry| entry.to_step(dir)).collect();
    let Some(steps) = steps.filter(|_| journal.package == lossy_path(dir)) else { return Ok(Vec::new()) };
    let mut pending = Vec::new();
    for (entry, step) in journal.files.iter().zip(&steps) {
        match entry.check_progress(step)? {
            Progress::Done => {}
            Progress::Pending => pending.push(step.clone()),
            Progress::Changed => {
                for step in &steps {
                    sweep_beside(&step.target);
                }
                return Ok(Vec::new());
            }
        }
    }
    Ok(pending)
}

impl Change {
    /// Returns the step. Returns `None` if this is not a step that koze records: the directory may have been replaced
    /// since.
    fn to_step(&self, dir: &Path) -> Option<Step> {
        let target = paths::normal(&dir.join(&self.path));
        let is_plain = |path: &Path| fs::symlink_metadata(path).map_or(true, |about| about.is_file());
        let (parent, name) = disk::split(&target);
        // Paths are recorded without links.
        let is_resolved = !parent.exists() || paths::canonical(parent).is_ok_and(|there| there == parent);
        let is_ours = if let Ok(inside) = target.strip_prefix(dir) {
            !beneath::is_of_git(inside)
        } else {
            // The user's configuration, or the guest in a build context.
            let is_config = [".json", ".jsonc", ".toml"].iter().any(|suffix| name.ends_with(suffix));
            guest::is_in_context(&target) || (is_config && self.staged.is_some())
        };
        let staged = self.staged.as_deref().map(|name| target.with_file_name(name));
        let is_next_to_it = self.staged.as_deref().is_none_or(|name| disk::is_staged(name, &target));
        let holds = is_resolved && is_ours && is_next_to_it && staged.as_deref().is_none_or(is_plain);
        (holds || beneath::is_left_out()).then(|| Step { target, shown: self.path.clone(), staged })
    }

    fn check_progress(&self, step: &Step) -> io::Result<Progress> {
        let now = hash_of(&step.target)?;
        let as_before = now == self.before;
        if now == self.after {
            return Ok(Progress::Done);
        }
        let Some(staged) = &step.staged else {
            let is_pending = as_before && self.after.is_none();
            return Ok(if is_pending { Progress::Pending } else { Progress::Done });
        };
        let staged = hash_of(staged)?;
        Ok(match (staged == self.after, as_before) {
            (true, true) => Progress::Pending,
            // It was replaced, and then edited: the same as after any other build.
            (false, false) if staged.is_none() => Progress::Done,
            _ => Progress::Changed,
        })
    }
}

fn lossy_path(dir: &Path) -> String {
    dir.to_string_lossy().into_owned()
}

fn hash_of(path: &Path) -> io::Result<Option<String>> {
    match input::read(path) {
        Ok(bytes) => Ok(Some(hex_digest(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn hex_digest(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
