//! Resolves the paths of a package that koze reads back or writes.
//!
//! A package may be somebody else's: a cloned repository chooses every name, link and recorded path in it. No such
//! choice leads koze out of the package.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::paths;

/// The directory of git's own files, which contains programs that git runs.
const GIT: &str = ".git";

thread_local! {
    /// Whether this thread builds the control of an attempt of `koze doctor --prove`.
    static IS_LEFT_OUT: Cell<bool> = const { Cell::new(false) };
}

/// Runs the control of an attempt: without the protection against packages of somebody else. No argument and no variable
/// of the environment leads here.
#[cfg(namespaces)]
pub(crate) fn without_protection<T>(run: impl FnOnce() -> T) -> T {
    IS_LEFT_OUT.set(true);
    let done = run();
    IS_LEFT_OUT.set(false);
    done
}

/// Returns whether the protection is left out, in the control of an attempt.
pub(crate) fn is_left_out() -> bool {
    IS_LEFT_OUT.get()
}

/// A path that leads out of its root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct Stray {
    /// The path, relative to the root.
    path: String,
    /// Where the path leads if it is a symbolic link.
    target: Option<PathBuf>,
    /// Whether the target exists.
    exists: bool,
}

impl Stray {
    fn io_error(path: &Path, root: &Path, target: Option<PathBuf>, exists: bool) -> io::Error {
        io::Error::other(Stray { path: paths::relative(path, root), target, exists })
    }

    /// Returns the reason in an error that [`resolve`] returned.
    pub fn of(error: &io::Error) -> Option<&Stray> {
        error.get_ref()?.downcast_ref()
    }

    /// Describes the path and where it leads.
    pub fn message(&self) -> String {
        let path = &self.path;
        match &self.target {
            None => format!("`{path}` is outside the package and the repository that contains it"),
            Some(target) if self.exists => {
                format!(
                    "`{path}` is a symbolic link that leads out of the package, to `{}`",
                    target.display()
                )
            }
            Some(target) => {
                format!("`{path}` is a symbolic link to `{}`, which does not exist", target.display())
            }
        }
    }

    /// Returns the remedy.
    pub fn remedy(&self) -> String {
        match &self.target {
            None => "koze writes only in the package and in the repository that contains it, the nearest directory above with `.git`: move the file or directory there".to_owned(),
            Some(target) if self.exists && self.path.starts_with("wrangler.") => format!(
                "koze follows no link out of a package: pass the file that it should manage with `--config {}`, or replace the link by a file",
                target.display()
            ),
            Some(_) => "koze follows no link out of a package: replace the link by what belongs there".to_owned(),
        }
    }
}

/// Resolves the symbolic links of a path in `root`, a directory without links. Links may lead to other places in `root`,
/// except to git's own files. The end of the path need not exist.
///
/// # Errors
/// Returns a [`Stray`] if the path leads out of `root`, and the errors of the operating system.
pub fn resolve(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let path = paths::normal(path);
    if is_left_out() {
        return Ok(path);
    }
    let Ok(rest) = path.strip_prefix(root) else { return Err(Stray::io_error(&path, root, None, true)) };
    rest.components().try_fold(root.to_owned(), |resolved, part| resolve_part(resolved.join(part), root))
}

/// Resolves the last part of a path whose other parts are resolved.
fn resolve_part(path: PathBuf, root: &Path) -> io::Result<PathBuf> {
    match fs::symlink_metadata(&path) {
        Ok(about) if about.is_symlink() => follow_link(&path, root),
        Ok(_) => Ok(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path),
        Err(error) => Err(super::disk::named("find", &path, error)),
    }
}

/// Resolves many paths in one root as [`resolve`] does, but a directory only once for all files in it that follow each
/// other.
pub struct Resolver<'r> {
    root: &'r Path,
    /// The last directory and what it resolves to.
    last: Option<(PathBuf, PathBuf)>,
}

impl<'r> Resolver<'r> {
    /// Creates a resolver of paths in `root`, a directory without links.
    pub fn new(root: &'r Path) -> Self {
        Resolver { root, last: None }
    }

    /// Resolves the symbolic links of a path.
    ///
    /// # Errors
    /// As [`resolve`].
    pub fn resolve(&mut self, path: &Path) -> io::Result<PathBuf> {
        let path = paths::normal(path);
        let (Some(dir), Some(name), false) = (path.parent(), path.file_name(), is_left_out()) else {
            return resolve(self.root, &path);
        };
        let known = self.last.take().filter(|(last, _)| last == dir);
        let (dir, resolved) = match known {
            Some(known) => known,
            None => (dir.to_owned(), resolve(self.root, dir)?),
        };
        let file = resolve_part(resolved.join(name), self.root);
        self.last = Some((dir, resolved));
        file
    }
}

/// Resolves the directory of a path in `root`, and not the path itself, which may be a link to delete.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_entry(root: &Path, path: &Path) -> io::Result<PathBuf> {
    match (path.parent(), path.file_name()) {
        (Some(dir), Some(name)) if path != root => Ok(resolve(root, dir)?.join(name)),
        _ => resolve(root, path),
    }
}

/// Returns where a link leads, which must be in `root`.
fn follow_link(link: &Path, root: &Path) -> io::Result<PathBuf> {
    let Ok(target) = paths::canonical(link) else {
        let target = fs::read_link(link).unwrap_or_default();
        return Err(Stray::io_error(link, root, Some(target), false));
    };
    match target.strip_prefix(root) {
        Ok(rest) if !is_of_git(rest) => Ok(target),
        _ => Err(Stray::io_error(link, root, Some(target), true)),
    }
}

/// Returns whether a relative path leads to git's own files.
pub(super) fn is_of_git(path: &Path) -> bool {
    path.components().any(|part| matches!(part, Component::Normal(name) if name.eq_ignore_ascii_case(GIT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_outside_the_root_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = paths::canonical(dir.path()).unwrap();
        for path in ["../x", "a/../../x", "/x"] {
            let error = resolve(&root, &root.join(path)).unwrap_err();
            assert!(Stray::of(&error).is_some(), "{path}: {error}");
        }
        for path in ["a/b", "a/../b", "."] {
            assert_eq!(resolve(&root, &root.join(path)).unwrap(), paths::normal(&root.join(path)));
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_in_the_root() {
        use std::os::unix::fs::symlink;

        let outside = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let root = paths::canonical(dir.path()).unwrap();
        for made in ["real/deep", ".git/hooks"] {
            fs::create_dir_all(root.join(made)).unwrap();
        }
        symlink("real", root.join("inside")).unwrap();
        symlink("inside/deep", root.join("twice")).unwrap();
        assert_eq!(resolve(&root, &root.join("twice/new/file")).unwrap(), root.join("real/deep/new/file"));
        symlink(outside.path(), root.join("out")).unwrap();
        symlink("../out", root.join("real/up")).unwrap();
        symlink(".git/hooks", root.join("hooks")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let mut resolver = Resolver::new(&root);
        for path in ["out", "out/x", "inside/up/x", "hooks/pre-commit", "dangling", "loop/x"] {
            let error = resolve(&root, &root.join(path)).unwrap_err();
            assert!(Stray::of(&error).is_some(), "{path}: {error}");
            let error = resolver.resolve(&root.join(path)).unwrap_err();
            assert!(Stray::of(&error).is_some(), "{path}: {error}");
        }
        for path in ["inside/deep/a", "inside/deep/b", "twice/c", "real/deep", "new"] {
            let path = root.join(path);
            assert_eq!(resolver.resolve(&path).unwrap(), resolve(&root, &path).unwrap());
        }
        // The link itself is in the root.
        assert_eq!(resolve_entry(&root, &root.join("out")).unwrap(), root.join("out"));
        assert!(resolve_entry(&root, &root.join("out/x")).is_err());
    }
}
