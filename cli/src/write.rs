//! Writes the outputs: each whole or not at all, and none before all are on the disk.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

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
        let before = match fs_err::read(&path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
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

/// Brings the changes about, in their order.
///
/// Every new content is on the disk, in a temporary file beside its place, before the first file is replaced: a full
/// disk or a directory without permission leaves everything as it was.
pub fn apply(changes: &[Change]) -> Result<(), Failed> {
    let mut ready = Vec::new();
    let mut made: Vec<PathBuf> = Vec::new();
    for change in changes.iter().filter(|change| change.action() != Action::Unchanged) {
        match prepare(change, &mut made) {
            Ok(file) => ready.push((change, file)),
            Err(error) => {
                drop(ready);
                remove_empty(&made);
                return Err(Failed { error, written: Vec::new() });
            }
        }
    }
    let mut written = Vec::new();
    for (change, file) in ready {
        let done = match file {
            Some(file) => {
                file.persist(&change.path).map(drop).map_err(|error| named(&change.path, &error.error))
            }
            None => fs_err::remove_file(&change.path),
        };
        if let Err(error) = done {
            return Err(Failed { error, written });
        }
        sync_dir(&change.path);
        written.push(change.shown.clone());
    }
    Ok(())
}

/// The new content in a temporary file beside its place; none where the file is to go.
fn prepare(change: &Change, made: &mut Vec<PathBuf>) -> io::Result<Option<NamedTempFile>> {
    let dir = change.path.parent().unwrap_or(Path::new("."));
    make_dirs(dir, made)?;
    let Some(after) = &change.after else {
        return Ok(None);
    };
    let present = fs_err::metadata(&change.path).ok().map(|metadata| metadata.permissions());
    // A rename would replace a file that its owner made read-only.
    if present.as_ref().is_some_and(Permissions::readonly) {
        let denied = io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only");
        return Err(named(&change.path, &denied));
    }
    let name = change.path.file_name().unwrap_or_default().to_string_lossy();
    sweep(dir, &name);
    let mut file = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".koze-tmp")
        // As a new file of the user's would be; the umask applies.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir)
        .map_err(|error| named(&change.path, &error))?;
    file.write_all(after).map_err(|error| named(&change.path, &error))?;
    if let Some(permissions) = present {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all().map_err(|error| named(&change.path, &error))?;
    Ok(Some(file))
}

/// Whether a file is one of those that stand beside a file while it is written.
pub fn is_temporary(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "koze-tmp")
}

/// Takes away what a build that was killed left behind. Builds take turns, so no other is writing now.
fn sweep(dir: &Path, name: &str) {
    let (prefix, suffix) = (format!(".{name}."), ".koze-tmp");
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let left = entry.file_name();
        let left = left.to_string_lossy();
        if left.starts_with(&prefix) && left.ends_with(suffix) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Takes directories away again that are still empty, the deepest, which comes last, first.
pub fn remove_empty(made: &[PathBuf]) {
    made.iter().rev().for_each(|dir| drop(std::fs::remove_dir(dir)));
}

/// Makes a directory and those above it that are missing; `made` gets their paths.
pub fn make_dirs(dir: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    for dir in missing.into_iter().rev() {
        fs_err::create_dir(dir)?;
        made.push(dir.to_owned());
    }
    Ok(())
}

/// Makes a rename last; where the file system cannot, the rename itself still is whole.
fn sync_dir(path: &Path) {
    if let Some(dir) = path.parent()
        && let Ok(dir) = std::fs::File::open(dir)
    {
        let _ = dir.sync_all();
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("failed to write `{}`: {error}", path.display()))
}
