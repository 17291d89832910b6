//! Writes the outputs: each whole or not at all, and none before all are on the disk.
//!
//! | module | job |
//! |---|---|
//! | `disk` | the operations that change the disk |
//! | `fault` | makes them fail where a test asks for it |
//! | `journal` | finishes what a run that was killed had begun |

pub(crate) mod disk;
mod fault;
mod journal;

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

/// A file as it is and as it is to be.
#[derive(Debug, Clone)]
pub struct Change {
    /// Where it lies.
    pub path: PathBuf,
    /// The same as messages show it.
    pub shown: String,
    /// What stands in it; `None` where there is no file.
    pub before: Option<Vec<u8>>,
    /// What is to stand in it; `None` takes the file away.
    pub after: Option<Vec<u8>>,
}

/// What a change does to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// There was no file.
    Create,
    /// Its bytes differ.
    Update,
    /// Its bytes are the same: it is not written.
    Unchanged,
    /// The file goes.
    Remove,
}

impl Action {
    /// The word for it.
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
    /// A change of the file at `path`, which is read; of a symbolic link, a change of the file it leads to, but where it
    /// is to go: then the link goes.
    pub fn of(path: PathBuf, shown: String, after: Option<Vec<u8>>) -> io::Result<Change> {
        let path = if path.is_symlink() && after.is_some() { fs_err::canonicalize(&path)? } else { path };
        let before = disk::read(&path)?;
        Ok(Change { path, shown, before, after })
    }

    /// What it does.
    pub fn action(&self) -> Action {
        match (&self.before, &self.after) {
            (None, Some(_)) => Action::Create,
            (Some(before), Some(after)) if before != after => Action::Update,
            (Some(_), None) => Action::Remove,
            _ => Action::Unchanged,
        }
    }
}

/// Writing failed.
#[derive(Debug)]
pub struct Failed {
    /// What the operating system said, the file's name in it.
    pub error: io::Error,
    /// The files that were written before, as messages show them.
    pub written: Vec<String>,
}

/// A change whose new content is on the disk.
struct Staged<'a> {
    change: &'a Change,
    /// The new content, beside its place; none where the file is to go.
    file: Option<TempPath>,
}

/// A file that is to be replaced, or to go.
#[derive(Debug)]
struct Step {
    target: PathBuf,
    shown: String,
    staged: Option<PathBuf>,
}

/// Brings the changes about, in their order. `dir` is the package, and this run the only one that writes to it.
///
/// Every new content is on the disk, in a temporary file beside its place, before the first file is replaced: a full
/// disk or a directory without permission leaves everything as it was. From then on all of it is done, where not by
/// this run then by the next, which [finishes](finish) what this one leaves.
pub fn apply(dir: &Path, changes: &[Change]) -> Result<(), Failed> {
    for change in changes {
        sweep(&change.path);
    }
    let mut made = Vec::new();
    let staged = stage(dir, changes, &mut made).map_err(|error| {
        remove_empty(&made);
        Failed { error, written: Vec::new() }
    })?;
    let journal = staged.len() > 1;
    let steps: Vec<Step> = staged.into_iter().map(Staged::into_step).collect();
    take(dir, &steps, journal).inspect_err(|failed| {
        if failed.written.is_empty() {
            give_up(dir, &steps, journal);
            remove_empty(&made);
        }
    })
}

/// Finishes what a run that was interrupted had begun, and returns the files that were written, as messages show them.
pub fn finish(dir: &Path) -> Result<Vec<String>, Failed> {
    let nothing = |error| Failed { error, written: Vec::new() };
    let Some(steps) = journal::read(dir).map_err(nothing)? else { return Ok(Vec::new()) };
    take(dir, &steps, true)?;
    Ok(steps.into_iter().map(|step| step.shown).collect())
}

/// Puts every new content on the disk, and where there are several on record that they belong together.
fn stage<'a>(dir: &Path, changes: &'a [Change], made: &mut Vec<PathBuf>) -> io::Result<Vec<Staged<'a>>> {
    let changes = changes.iter().filter(|change| change.action() != Action::Unchanged);
    let staged = changes.map(|change| prepare(change, made)).collect::<io::Result<Vec<_>>>()?;
    // Staging takes time, in which somebody may have saved a file.
    for Staged { change, .. } in &staged {
        if disk::read(&change.path)? != change.before {
            return Err(io::Error::other(format!("`{}` has changed since koze read it", change.shown)));
        }
    }
    if staged.len() > 1 {
        sync_dirs(staged.iter().map(|staged| staged.change.path.as_path()));
        journal::write(dir, &staged)?;
    }
    Ok(staged)
}

/// The new content in a temporary file beside its place; none where the file is to go.
fn prepare<'a>(change: &'a Change, made: &mut Vec<PathBuf>) -> io::Result<Staged<'a>> {
    let present = fs_err::metadata(&change.path).ok().map(|metadata| metadata.permissions());
    // A rename would replace a file that its owner made read-only.
    if present.as_ref().is_some_and(Permissions::readonly) {
        let denied = io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only");
        return Err(disk::named("write", &change.path, &denied));
    }
    let Some(after) = &change.after else {
        return Ok(Staged { change, file: None });
    };
    make_dirs(disk::split(&change.path).0, made)?;
    Ok(Staged { change, file: Some(disk::stage(&change.path, after, present)?) })
}

impl Staged<'_> {
    /// From here on the temporary file stays where the step fails.
    fn into_step(self) -> Step {
        let file = self.file.map(|file| {
            let path = file.to_path_buf();
            drop(file.keep());
            path
        });
        Step { target: self.change.path.clone(), shown: self.change.shown.clone(), staged: file }
    }
}

/// Takes the steps in their order, then the journal away.
fn take(dir: &Path, steps: &[Step], journal: bool) -> Result<(), Failed> {
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
    if journal {
        journal::remove(dir).map_err(|error| Failed { error, written })?;
    }
    Ok(())
}

/// Leaves everything as it was.
fn give_up(dir: &Path, steps: &[Step], journal: bool) {
    if journal {
        let _ = journal::remove(dir);
    }
    let staged = steps.iter().filter_map(|step| step.staged.as_deref());
    staged.for_each(|file| drop(disk::remove_file(file)));
}

/// Whether a file is one of those that stand beside a file while it is written, or the journal.
pub fn is_temporary(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "koze-tmp") || path.ends_with(journal::FILE)
}

/// Takes away what a run that was killed left beside a file. Builds take turns, so no other is writing now.
fn sweep(target: &Path) {
    for entry in std::fs::read_dir(disk::split(target).0).into_iter().flatten().flatten() {
        if disk::is_staged(&entry.file_name().to_string_lossy(), target) {
            let _ = disk::remove_file(&entry.path());
        }
    }
}

/// Takes directories away that are empty, the deepest, which comes last, first.
pub fn remove_empty(dirs: &[PathBuf]) {
    dirs.iter().rev().for_each(|dir| drop(std::fs::remove_dir(dir)));
}

/// Makes a directory and those above it that are missing; `made` gets their paths.
pub fn make_dirs(dir: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    for dir in missing.into_iter().rev() {
        disk::create_dir(dir)?;
        made.push(dir.to_owned());
    }
    Ok(())
}

/// Makes what happened to files last, each directory once.
fn sync_dirs<'p>(files: impl Iterator<Item = &'p Path>) {
    let dirs: BTreeSet<&Path> = files.map(|file| disk::split(file).0).collect();
    dirs.into_iter().for_each(disk::sync_dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What somebody saves while koze is at work is not lost.
    #[test]
    fn a_file_that_has_changed_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let change = |name: &str, before: Option<&str>| Change {
            path: dir.path().join(name),
            shown: name.to_owned(),
            before: before.map(|text| text.as_bytes().to_vec()),
            after: Some(b"koze's".to_vec()),
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
