//! Writes the files of a build: each atomically, and none before the content of all is on disk.
//!
//! | module | job |
//! |---|---|
//! | `beneath` | resolves the paths of a package, none of which leads out of it |
//! | `input` | reads files that somebody else may have prepared |
//! | `disk` | the operations that change the disk |
//! | `fault` | makes them fail on request, for tests |
//! | `journal` | finishes the writes of a killed run |

pub mod beneath;
pub(crate) mod disk;
mod fault;
pub mod input;
mod journal;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use self::input::Current;

/// A file, before and after the change. A file that does not change has neither content: most builds change none, and
/// need not keep any.
#[derive(Debug, Clone)]
pub struct Change {
    /// Its path.
    pub path: PathBuf,
    /// Its path in messages.
    pub shown: String,
    /// The current content; `None` if the file does not exist.
    pub before: Option<Vec<u8>>,
    /// The new content; `None` deletes the file.
    pub after: Option<Content>,
}

/// The new content of a file. Many files are the same in all projects.
pub type Content = Cow<'static, [u8]>;

/// What a change does to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Creates the file.
    Create,
    /// Changes the content.
    Update,
    /// Leaves the content as it is; the file is not written.
    Unchanged,
    /// Deletes the file.
    Remove,
}

impl Action {
    /// Returns the word for the action.
    pub fn word(self) -> &'static str {
        match self {
            Action::Create => "create",
            Action::Update => "update",
            Action::Unchanged => "unchanged",
            Action::Remove => "remove",
        }
    }
}

impl Change {
    /// Creates a change of the file at `path` in `root` and reads its current content. A symbolic link in `root` is
    /// followed, unless the file is deleted: then the link itself is deleted.
    ///
    /// # Errors
    /// Returns an error if the path leads out of `root`, or the file cannot be read.
    pub fn of(root: &Path, path: &Path, shown: String, after: Option<Content>) -> io::Result<Change> {
        let resolved = beneath::resolve(root, path)?;
        if let Some(after) = after {
            return Change::of_named(resolved, shown, after);
        }
        let before = disk::read(&resolved)?;
        Ok(Change { path: beneath::resolve_entry(root, path)?, shown, before, after })
    }

    /// Creates a change of a file in `root`, as [`Change::of`], from a content that the caller has read.
    ///
    /// # Errors
    /// Returns an error if the path leads out of `root`.
    pub fn since(
        root: &Path,
        path: &Path,
        shown: String,
        before: Option<Vec<u8>>,
        after: Option<Vec<u8>>,
    ) -> io::Result<Change> {
        let path =
            if after.is_some() { beneath::resolve(root, path)? } else { beneath::resolve_entry(root, path)? };
        if before == after {
            return Ok(Change::none(path, shown));
        }
        Ok(Change { path, shown, before, after: after.map(Content::from) })
    }

    /// Creates a change of a file that the user named, wherever it is. Its path must have no links.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn of_named(path: PathBuf, shown: String, after: Content) -> io::Result<Change> {
        Ok(match disk::compare(&path, &after)? {
            Current::Same => Change::none(path, shown),
            Current::Missing => Change { path, shown, before: None, after: Some(after) },
            Current::Other(before) => Change { path, shown, before: Some(before), after: Some(after) },
        })
    }

    /// Creates a change that leaves the file as it is.
    pub fn none(path: PathBuf, shown: String) -> Change {
        Change { path, shown, before: None, after: None }
    }

    /// Returns what the change does.
    pub fn action(&self) -> Action {
        match (&self.before, &self.after) {
            (None, None) => Action::Unchanged,
            (None, Some(_)) => Action::Create,
            (Some(_), Some(_)) => Action::Update,
            (Some(_), None) => Action::Remove,
        }
    }
}

/// A failed write.
#[derive(Debug, thiserror::Error)]
#[error("not all files were written")]
pub struct Failed {
    /// The error of the operating system, with the file's name.
    #[source]
    pub error: io::Error,
    /// The files that were written before, as paths in messages.
    pub written: Vec<String>,
}

/// A change whose new content is on disk.
struct Staged<'a> {
    change: &'a Change,
    /// The new content, in a temporary file next to its destination; `None` for a deletion.
    file: Option<TempPath>,
}

/// A file to replace or delete.
#[derive(Debug, Clone)]
struct Step {
    target: PathBuf,
    shown: String,
    staged: Option<PathBuf>,
}

/// Applies the changes in order. `dir` is the package, which the caller must have locked.
///
/// Every new content is written to a temporary file next to its destination before the first file is replaced, so a
/// full disk or a read-only directory leaves everything unchanged. From then on all changes are made: if this run is
/// interrupted, the next one [finishes](finish) them.
///
/// # Errors
/// Returns the error and the files that were already written.
pub fn apply(dir: &Path, changes: &[Change]) -> Result<(), Failed> {
    apply_with(Some(dir), changes)
}

/// Applies the changes in order, as [`apply`], but if this run is interrupted, no other finishes it: for a directory that
/// is not in its place yet.
///
/// # Errors
/// As [`apply`].
pub fn apply_once(changes: &[Change]) -> Result<(), Failed> {
    apply_with(None, changes)
}

/// Applies the changes; `dir` is the package whose journal records them.
fn apply_with(dir: Option<&Path>, changes: &[Change]) -> Result<(), Failed> {
    sweep_all(changes);
    let mut made = Vec::new();
    let (staged, journal) = stage_changes(dir, changes, &mut made).map_err(|error| {
        remove_empty(&made);
        Failed { error, written: Vec::new() }
    })?;
    let steps: Vec<Step> = staged.into_iter().map(Staged::into_step).collect();
    perform_steps(&steps, journal.as_deref()).inspect_err(|failed| {
        if failed.written.is_empty() {
            undo_staging(&steps, journal.as_deref());
            remove_empty(&made);
        }
    })
}

/// Finishes the writes of an interrupted run and returns the files that were written, as paths in messages.
///
/// # Errors
/// Returns the error and the files that were already written.
pub fn finish(dir: &Path) -> Result<Vec<String>, Failed> {
    let nothing = |error| Failed { error, written: Vec::new() };
    let Some((journal, steps)) = journal::read(dir).map_err(nothing)? else { return Ok(Vec::new()) };
    perform_steps(&steps, Some(&journal))?;
    Ok(steps.into_iter().map(|step| step.shown).collect())
}

/// Returns whether a package contains the journal of an earlier version, which is not followed.
pub fn has_old_journal(dir: &Path) -> bool {
    dir.join(journal::OLD_FILE).symlink_metadata().is_ok()
}

/// Writes every new content to disk, and a journal if several files belong together. Returns the journal's path.
fn stage_changes<'a>(
    dir: Option<&Path>,
    changes: &'a [Change],
    made: &mut Vec<PathBuf>,
) -> io::Result<(Vec<Staged<'a>>, Option<PathBuf>)> {
    let changes = changes.iter().filter(|change| change.action() != Action::Unchanged);
    let staged = changes.map(|change| stage_file(change, made)).collect::<io::Result<Vec<_>>>()?;
    // Staging takes time, in which the user may have saved a file.
    for Staged { change, .. } in &staged {
        if disk::read(&change.path)? != change.before {
            return Err(io::Error::other(format!("`{}` has changed since koze read it", change.shown)));
        }
    }
    let mut journal = None;
    if staged.len() > 1 {
        sync_dirs(staged.iter().map(|staged| staged.change.path.as_path()));
        if let Some(dir) = dir {
            journal = journal::write(dir, &staged)?;
        }
    }
    Ok((staged, journal))
}

/// Writes the new content to a temporary file next to its destination. Writes nothing for a deletion.
fn stage_file<'a>(change: &'a Change, made: &mut Vec<PathBuf>) -> io::Result<Staged<'a>> {
    let present = fs_err::metadata(&change.path).ok().map(|metadata| metadata.permissions());
    // A rename would replace a file that its owner made read-only.
    if present.as_ref().is_some_and(Permissions::readonly) {
        let denied = io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only");
        return Err(disk::named("write", &change.path, denied));
    }
    let Some(after) = &change.after else {
        return Ok(Staged { change, file: None });
    };
    make_dirs(disk::split(&change.path).0, made)?;
    Ok(Staged { change, file: Some(disk::stage(&change.path, after, present)?) })
}

impl Staged<'_> {
    /// Converts to a step. From here on, the temporary file is kept if the step fails.
    fn into_step(self) -> Step {
        let file = self.file.map(|file| {
            let path = file.to_path_buf();
            drop(file.keep());
            path
        });
        Step { target: self.change.path.clone(), shown: self.change.shown.clone(), staged: file }
    }
}

/// Performs the steps in order, then deletes the journal.
fn perform_steps(steps: &[Step], journal: Option<&Path>) -> Result<(), Failed> {
    let mut written = Vec::new();
    for step in steps {
        let done = match &step.staged {
            Some(staged) => disk::rename(staged, &step.target),
            None => disk::remove_file(&step.target),
        };
        if let Err(error) = done {
            return Err(Failed { error, written });
        }
        written.push(step.shown.clone());
    }
    sync_dirs(steps.iter().map(|step| step.target.as_path()));
    if let Some(journal) = journal {
        journal::remove(journal).map_err(|error| Failed { error, written })?;
    }
    Ok(())
}

/// Undoes the staging, so that nothing is changed.
fn undo_staging(steps: &[Step], journal: Option<&Path>) {
    if let Some(journal) = journal {
        let _ = journal::remove(journal);
    }
    let staged = steps.iter().filter_map(|step| step.staged.as_deref());
    staged.for_each(|file| drop(disk::remove_file(file)));
}

/// Returns whether a file is one of koze's temporary files.
pub fn is_temporary(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "koze-tmp")
}

/// Deletes the temporary files that a killed run left next to a file. No other run is writing, because builds hold a
/// lock.
fn sweep_beside(target: &Path) {
    sweep_dir(disk::split(target).0, &[target]);
}

/// Deletes the temporary files next to all files, and reads each directory once.
fn sweep_all(changes: &[Change]) {
    let mut dirs: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
    for change in changes {
        dirs.entry(disk::split(&change.path).0).or_default().push(&change.path);
    }
    for (dir, targets) in dirs {
        sweep_dir(dir, &targets);
    }
}

fn sweep_dir(dir: &Path, targets: &[&Path]) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(disk::SUFFIX) && targets.iter().any(|target| disk::is_staged(&name, target)) {
            let _ = disk::remove_file(&entry.path());
        }
    }
}

/// Deletes directories that are empty, starting with the last one, which is the deepest.
pub fn remove_empty(dirs: &[PathBuf]) {
    dirs.iter().rev().for_each(|dir| drop(std::fs::remove_dir(dir)));
}

/// Creates a directory and its missing parents, and adds their paths to `made`.
///
/// # Errors
/// Returns an error if a directory cannot be created.
pub fn make_dirs(dir: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    for dir in missing.into_iter().rev() {
        disk::create_dir(dir)?;
        made.push(dir.to_owned());
    }
    Ok(())
}

/// Syncs the directories of files to disk, each once.
fn sync_dirs<'p>(files: impl Iterator<Item = &'p Path>) {
    let dirs: BTreeSet<&Path> = files.map(|file| disk::split(file).0).collect();
    dirs.into_iter().for_each(disk::sync_dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes that the user saves while koze is running are not lost.
    #[test]
    fn a_file_that_changed_meanwhile_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let change = |name: &str, before: Option<&str>| Change {
            path: dir.path().join(name),
            shown: name.to_owned(),
            before: before.map(|text| text.as_bytes().to_vec()),
            after: Some(Content::from(b"koze's".as_slice())),
        };
        for (name, text) in [("a", "1"), ("b", "saved"), ("c", "new")] {
            fs_err::write(dir.path().join(name), text).unwrap();
        }
        for stale in [change("b", Some("read")), change("c", None), change("d", Some("gone"))] {
            let failed = apply(dir.path(), &[change("a", Some("1")), stale]).unwrap_err();
            assert!(failed.written.is_empty());
            assert!(failed.error.to_string().ends_with("has changed since koze read it"), "{}", failed.error);
            let mut names: Vec<_> =
                fs_err::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["a", "b", "c"]);
            let read = |name: &str| fs_err::read_to_string(dir.path().join(name)).unwrap();
            assert_eq!((read("a"), read("b"), read("c")), ("1".into(), "saved".into(), "new".into()));
        }
    }
}
