//! The changes that a command makes next to those of the build: sources, settings, names. The project is built as if
//! they were already on disk, and all changes are written together or not at all.

use std::path::{Path, PathBuf};

use koze_edit::Edit;

/// The changes that a command adds to a build.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// Files, in the order of writing.
    pub files: Vec<Drafted>,
    /// The new text of the wrangler configuration, which the build then edits; `None` if the command does not replace it.
    pub config: Option<String>,
    /// Settings of the wrangler configuration that belong to no sandbox.
    pub settings: Vec<Edit>,
    /// Notes about these changes for the user.
    pub notes: Vec<String>,
    /// Renamed classes, as pairs of old and new name.
    pub renames: Vec<(String, String)>,
    /// Classes that move to another backend.
    pub moved: Vec<String>,
    /// Whether every class may have another backend than in the lock. Sandboxes on this machine run whatever it is.
    pub allows_other_backends: bool,
    /// Sandboxes to remove.
    pub removal: Option<Removal>,
}

/// Sandboxes to remove.
#[derive(Debug, Clone)]
pub struct Removal {
    /// Their base names or classes.
    pub names: Vec<String>,
    /// What happens to their storage.
    pub storage: Storage,
}

/// What happens to the storage of a removed sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Deleted when the migration is deployed.
    Delete,
    /// Kept, behind a plain Durable Object of the same class.
    Keep,
    /// Never deployed: the migration that creates the class is removed, too.
    Never,
}

/// A file, before and after the command.
#[derive(Debug, Clone)]
pub struct Drafted {
    /// The file's path.
    pub path: PathBuf,
    /// The current content; `None` if the file does not exist.
    pub before: Option<Vec<u8>>,
    /// The new content; `None` deletes the file.
    pub after: Option<Vec<u8>>,
}

impl Draft {
    /// Adds a new file.
    pub fn create(&mut self, path: PathBuf, after: impl Into<Vec<u8>>) {
        self.files.push(Drafted { path, before: None, after: Some(after.into()) });
    }

    /// Adds a change to a file.
    pub fn edit(&mut self, path: PathBuf, before: impl Into<Vec<u8>>, after: impl Into<Vec<u8>>) {
        self.files.push(Drafted { path, before: Some(before.into()), after: Some(after.into()) });
    }

    /// Adds the deletion of a file.
    pub fn remove(&mut self, path: PathBuf, before: impl Into<Vec<u8>>) {
        self.files.push(Drafted { path, before: Some(before.into()), after: None });
    }

    /// Returns the drafted content of a file, `Some(None)` if it is deleted, or `None` if the draft does not change it.
    pub fn file(&self, path: &Path) -> Option<Option<&[u8]>> {
        self.files.iter().find(|drafted| drafted.path == path).map(|drafted| drafted.after.as_deref())
    }

    /// Returns whether the draft creates or changes a file below a directory.
    pub fn writes_in(&self, dir: &Path) -> bool {
        self.files.iter().any(|drafted| drafted.after.is_some() && drafted.path.starts_with(dir))
    }

    /// Returns the created or changed files whose names end in `suffix`.
    pub fn ending<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = &'a Path> {
        let stays = |drafted: &'a Drafted| drafted.after.is_some().then_some(drafted.path.as_path());
        let named =
            move |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(suffix));
        self.files.iter().filter_map(stays).filter(named)
    }
}
