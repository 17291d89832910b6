//! Walks the files below a directory, in the order of the names, component by component.

use koze_protocol::search::{End, Search, is_ignored};

use crate::error::{Code, Result};
use crate::sandbox::{Entry, Kind, Place, Sandbox};

/// A walk. Symbolic links are not followed, except the path at which the walk starts.
pub(super) struct Walk<'a, S> {
    sandbox: &'a S,
    start: Place<'a>,
    pub(super) search: &'a Search,
    /// What is left, the next one last.
    left: Vec<Left>,
    directories: u64,
    entries: u64,
}

/// Something to visit.
struct Left {
    /// Its path below the start; empty if the start is a file.
    path: String,
    size: u64,
    is_directory: bool,
}

/// What comes next in a walk.
pub(super) enum Found {
    /// A file.
    File {
        /// Its path below the start; empty for the start itself.
        path: String,
        /// Its name.
        name: String,
        /// Its size in bytes.
        size: u64,
    },
    /// A directory that cannot be listed, with its path below the start.
    Unreadable(String),
    /// Nothing more, and why.
    End(End),
}

impl<'a, S: Sandbox> Walk<'a, S> {
    /// Starts at a directory, or at a file, which is then all there is.
    ///
    /// # Errors
    /// The errors of listing the directory.
    pub(super) async fn start_at(sandbox: &'a S, start: Place<'a>, search: &'a Search) -> Result<Self> {
        let mut walk = Walk { sandbox, start, search, left: Vec::new(), directories: 0, entries: 0 };
        match walk.list_directory("").await {
            Err(error) if error.code == Code::NotADirectory => {
                let size = sandbox.read(start, 0, 0).await?.size;
                walk.left.push(Left { path: String::new(), size, is_directory: false });
            }
            listed => listed?,
        }
        Ok(walk)
    }

    /// Returns what comes next.
    pub(super) async fn next(&mut self) -> Result<Found> {
        while let Some(Left { path, size, is_directory }) = self.left.pop() {
            if self.has_too_many() {
                break;
            }
            if !is_directory {
                let whole = if path.is_empty() { self.start.path.trim_end_matches('/') } else { &path };
                let name = whole.rsplit('/').next().unwrap_or_default().to_owned();
                return Ok(Found::File { path, name, size });
            }
            match self.list_directory(&path).await {
                Ok(()) => {}
                // It was removed meanwhile.
                Err(error) if error.code == Code::NotFound => {}
                Err(error) if matches!(error.code, Code::TooLarge | Code::Unavailable) => return Err(error),
                Err(_) => return Ok(Found::Unreadable(path)),
            }
        }
        Ok(Found::End(if self.has_too_many() { End::TooMany } else { End::Complete }))
    }

    fn has_too_many(&self) -> bool {
        self.directories > self.search.max_directories || self.entries > self.search.max_entries
    }

    async fn list_directory(&mut self, directory: &str) -> Result<()> {
        let path = join_path(self.start.path, directory);
        let mut entries = self.sandbox.list(Place { root: self.start.root, path: &path }).await?;
        if self.search.skip_ignored {
            entries.retain(|entry| !is_ignored(&entry.name));
        }
        self.directories += 1;
        self.entries += entries.len() as u64;
        entries.sort_unstable_by(|one, other| other.name.cmp(&one.name));
        let left = |Entry { name, stat }: Entry| {
            let is_directory = match stat.kind {
                Kind::Directory => true,
                Kind::File => false,
                Kind::Link(_) | Kind::Other => return None,
            };
            let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            Some(Left { path, size: stat.size, is_directory })
        };
        self.left.extend(entries.into_iter().filter_map(left));
        Ok(())
    }
}

/// Joins the start of a walk and a path below it.
pub(super) fn join_path(start: &str, path: &str) -> String {
    if path.is_empty() { start.to_owned() } else { format!("{}/{path}", start.trim_end_matches('/')) }
}
