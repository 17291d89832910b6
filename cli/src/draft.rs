//! What a command changes beside what a build writes: sources, settings, names. It is built as if it were on the disk,
//! and reaches the disk with the rest, all or nothing.

use std::path::{Path, PathBuf};

use koze_edit::Edit;

/// Changes that a command brings to a build.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// Files, in the order in which they are written.
    pub files: Vec<Drafted>,
    /// Settings of the wrangler configuration that are no blocks of sandboxes.
    pub settings: Vec<Edit>,
    /// What a person should know of these changes.
    pub notes: Vec<String>,
    /// Classes that go on under another name: old, new.
    pub renames: Vec<(String, String)>,
    /// Classes that go on with another backend.
    pub moved: Vec<String>,
    /// Sandboxes to take out.
    pub removal: Option<Removal>,
}

/// Sandboxes to take out.
#[derive(Debug, Clone)]
pub struct Removal {
    /// Their base names or their classes.
    pub names: Vec<String>,
    /// What is to become of their storage.
    pub storage: Storage,
}

/// What is to become of the storage of a sandbox that is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// It is deleted when the migration is deployed.
    Delete,
    /// It stays, behind a plain Durable Object of the same class.
    Keep,
    /// The class was never deployed: the migration that creates it is removed as well.
    Never,
}

/// A file as the command found it and as it is to be.
#[derive(Debug, Clone)]
pub struct Drafted {
    /// Where it lies.
    pub path: PathBuf,
    /// What stood in it; `None` where there was no file.
    pub before: Option<Vec<u8>>,
    /// What is to stand in it; `None` takes the file away.
    pub after: Option<Vec<u8>>,
}

impl Draft {
    /// Adds a file that is not there.
    pub fn create(&mut self, path: PathBuf, after: impl Into<Vec<u8>>) {
        self.files.push(Drafted { path, before: None, after: Some(after.into()) });
    }

    /// Adds a change of a file.
    pub fn edit(&mut self, path: PathBuf, before: impl Into<Vec<u8>>, after: impl Into<Vec<u8>>) {
        self.files.push(Drafted { path, before: Some(before.into()), after: Some(after.into()) });
    }

    /// Adds a file that is to go.
    pub fn remove(&mut self, path: PathBuf, before: impl Into<Vec<u8>>) {
        self.files.push(Drafted { path, before: Some(before.into()), after: None });
    }

    /// What is to become of a file: its new content, `None` where it goes; nothing where the draft leaves it alone.
    pub fn file(&self, path: &Path) -> Option<Option<&[u8]>> {
        self.files.iter().find(|drafted| drafted.path == path).map(|drafted| drafted.after.as_deref())
    }

    /// The files that are to be there and whose names end in `suffix`.
    pub fn ending<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = &'a Path> {
        let stays = |drafted: &'a Drafted| drafted.after.is_some().then_some(drafted.path.as_path());
        let named =
            move |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(suffix));
        self.files.iter().filter_map(stays).filter(named)
    }
}
