//! Visits the entries below a directory in the order of their names, and leaves out names that are rarely of interest.

use std::time::Duration;

use koze_protocol::search::is_ignored;

use super::place::confine_path;
use crate::error::{Code, Error, Result};
use crate::sandbox::{Entry, Kind, Sandbox};
use crate::time::Start;

/// How many entries a search looks at.
pub(super) const ENTRIES: usize = 1_000_000;

/// How long a search may take.
pub(super) const DEADLINE: Duration = Duration::from_mins(1);

/// A search under way.
pub(super) struct Walk<'a, S> {
    sandbox: &'a S,
    root: String,
    /// What is still to be visited, the next one last.
    left: Vec<Found>,
    /// The directory that was returned last: its entries are next.
    inside: Option<String>,
    entries: usize,
    start: Start,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Its path, relative to the directory that is searched.
    pub(super) path: String,
    pub(super) kind: Kind,
}

impl<'a, S: Sandbox> Walk<'a, S> {
    /// Lists the directory to search.
    pub(super) async fn new(sandbox: &'a S, root: String) -> Result<Self> {
        let entries = sandbox.list(confine_path(&root)).await?;
        let (left, inside, start) = (Vec::new(), None, Start::now());
        let mut walk = Walk { sandbox, root, left, inside, entries: 0, start };
        walk.push_entries("", entries)?;
        Ok(walk)
    }

    /// Returns what is next. A directory comes before its entries.
    pub(super) async fn next(&mut self) -> Result<Option<Found>> {
        if let Some(directory) = self.inside.take() {
            self.in_time()?;
            match self.sandbox.list(confine_path(&self.absolute_path(&directory))).await {
                Ok(entries) => self.push_entries(&directory, entries)?,
                Err(error) if error.code == Code::TooLarge => return Err(error),
                // It may be gone, or closed to the sandbox's user.
                Err(_) => {}
            }
        }
        let found = self.left.pop();
        self.inside =
            found.as_ref().filter(|found| found.kind == Kind::Directory).map(|found| found.path.clone());
        Ok(found)
    }

    /// Returns the absolute path of something that was found.
    pub(super) fn absolute_path(&self, path: &str) -> String {
        format!("{}/{path}", self.root)
    }

    /// Fails if there is no time left.
    pub(super) fn in_time(&self) -> Result<()> {
        if self.start.elapsed() <= DEADLINE {
            return Ok(());
        }
        Err(too_long())
    }

    fn push_entries(&mut self, directory: &str, mut entries: Vec<Entry>) -> Result<()> {
        entries.retain(|entry| !is_ignored(&entry.name));
        self.entries += entries.len();
        if self.entries > ENTRIES {
            return Err(too_many());
        }
        entries.sort_unstable_by(|a, b| b.name.cmp(&a.name));
        let found = |entry: Entry| {
            let path = if directory.is_empty() { entry.name } else { format!("{directory}/{}", entry.name) };
            Found { path, kind: entry.stat.kind }
        };
        self.left.extend(entries.into_iter().map(found));
        Ok(())
    }
}

/// Returns the error of a search without time left.
pub(super) fn too_long() -> Error {
    Error::new(Code::Timeout, "the search took too long: use a more specific path")
}

/// Returns the error of a search that finds too much.
pub(super) fn too_many() -> Error {
    Error::new(Code::TooLarge, format!("there are more than {ENTRIES} files: use a more specific path"))
}

/// What a symbolic link leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A directory of the thread.
    Directory,
    /// Anything else of the thread, or nothing.
    Other,
    /// Something outside of the thread's directories.
    Outside,
}

/// Returns what the link at a path leads to. Only opening it tells.
pub(super) async fn find_link_target<S: Sandbox>(sandbox: &S, path: &str) -> Target {
    match sandbox.read(confine_path(path), 0, 0).await.map_err(|error| error.code) {
        Err(Code::PathEscape) => Target::Outside,
        Err(Code::IsDirectory) => Target::Directory,
        _ => Target::Other,
    }
}

/// Returns the text for the results of a search. `hint` is what to do where there are more.
pub(super) fn format_results(what: &str, root: &str, results: &[String], hint: Option<&str>) -> String {
    let count = results.len();
    let shown = if hint.is_some() { format!(" (showing first {count})") } else { String::new() };
    let mut lines = vec![format!("Found {count} {what} under {root}{shown}")];
    lines.extend(results.iter().cloned());
    lines.extend(hint.map(|hint| format!("Results truncated. {hint}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::memory::Memory;
    use crate::provider::{Profile, Size};
    use crate::sandbox::Write;
    use crate::{Profiles, Session, SessionId};

    #[test]
    fn names_are_visited_in_order() {
        pollster::block_on(async {
            let profile = Profile::new("a", "debian", Size { memory_mib: 1, disk_mb: 1 });
            let profiles = Profiles::new(vec![profile], "a").unwrap();
            let session = Session::new(Memory::new(), SessionId::new("t", "s").unwrap(), profiles);
            let sandbox = session.sandbox("default").await.unwrap();
            for path in ["b/y", "b/x/1", "a.txt", "b.txt", "c", "node_modules/m", "b/z.log"] {
                let path = format!("/mnt/user-data/uploads/{path}");
                sandbox.write(confine_path(&path), Vec::new(), Write::Replace).await.unwrap();
            }
            let mut walk = Walk::new(&sandbox, "/mnt/user-data/uploads".to_owned()).await.unwrap();
            let mut paths = Vec::new();
            while let Some(found) = walk.next().await.unwrap() {
                paths.push(found.path);
            }
            assert_eq!(paths, ["a.txt", "b", "b/x", "b/x/1", "b/y", "b.txt", "c"]);
            walk.entries = ENTRIES;
            let one = sandbox.list(confine_path("/mnt/user-data")).await.unwrap();
            assert_eq!(walk.push_entries("", one).unwrap_err().code, Code::TooLarge);
        });
    }
}
