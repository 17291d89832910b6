//! Walks the files below a directory.

use crate::error::{Code, Error, Result};
use crate::sandbox::{Entry, Kind, Place, Sandbox};

/// How many directories a walk lists, and how many entries it looks at.
const DIRECTORIES: usize = 100_000;
const ENTRIES: usize = 1_000_000;

/// A walk. Files come in the order of their paths, component by component. Symbolic links are not followed, except the path
/// at which the walk starts.
#[derive(Debug)]
pub(super) struct Walk<'a, S> {
    sandbox: &'a S,
    root: &'a str,
    start: &'a str,
    /// What is left, the next one last.
    left: Vec<Found>,
    directories: usize,
    entries: usize,
}

/// What a walk has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The path, relative to the start; empty if the start is a file.
    pub(super) path: String,
    pub(super) size: u64,
    is_directory: bool,
}

impl<'a, S: Sandbox> Walk<'a, S> {
    /// Starts at a directory, or at a file, which is then all there is.
    ///
    /// # Errors
    /// The errors of listing the directory.
    pub(super) async fn start(sandbox: &'a S, root: &'a str, start: &'a str) -> Result<Self> {
        let mut walk = Walk { sandbox, root, start, left: Vec::new(), directories: 0, entries: 0 };
        match walk.list("").await {
            Err(error) if error.code == Code::NotADirectory => {
                let size = sandbox.read(Place { root, path: start }, 0, 0).await?.size;
                walk.left.push(Found { path: String::new(), size, is_directory: false });
            }
            listed => listed?,
        }
        Ok(walk)
    }

    /// Returns the next file, or the path of a directory that could not be listed.
    pub(super) async fn next(&mut self) -> Result<Option<std::result::Result<Found, String>>> {
        while let Some(found) = self.left.pop() {
            if !found.is_directory {
                return Ok(Some(Ok(found)));
            }
            match self.list(&found.path).await {
                Ok(()) => {}
                Err(error) if error.code == Code::TooLarge => return Err(error),
                // It was removed meanwhile.
                Err(error) if error.code == Code::NotFound => {}
                Err(_) => return Ok(Some(Err(found.path))),
            }
        }
        Ok(None)
    }

    async fn list(&mut self, directory: &str) -> Result<()> {
        let path = joined(self.start, directory);
        let mut entries = self.sandbox.list(Place { root: self.root, path: &path }).await?;
        self.directories += 1;
        self.entries += entries.len();
        if self.directories > DIRECTORIES || self.entries > ENTRIES {
            let message = format!(
                "there are more than {DIRECTORIES} directories or {ENTRIES} files: pass a directory with fewer of them as `path`"
            );
            return Err(Error::new(Code::TooLarge, message));
        }
        entries.sort_unstable_by(|one, other| other.name.cmp(&one.name));
        let found = |Entry { name, stat }: Entry| {
            let is_directory = match stat.kind {
                Kind::Directory => true,
                Kind::File => false,
                Kind::Link(_) | Kind::Other => return None,
            };
            let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            Some(Found { path, size: stat.size, is_directory })
        };
        self.left.extend(entries.into_iter().filter_map(found));
        Ok(())
    }
}

/// Joins the start of a walk and a path below it.
pub(super) fn joined(start: &str, path: &str) -> String {
    if path.is_empty() { start.to_owned() } else { super::below(start, path) }
}
