//! The state of a search: the files it has found, and the work it has done.

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use super::Pattern;
use crate::error::{Code, Error, Result};
use crate::sandbox::{Entry, Kind};
use crate::time::Start;
use crate::turns;

/// The maximum number of files that a model gets.
pub(super) const MAX_PATHS: usize = 1000;

/// The maximum number of directories of a search. The others are left out, and the result says that it is incomplete.
const DIRECTORIES: usize = 100_000;

/// The maximum number of entries of a search.
const ENTRIES: usize = 1_000_000;

/// The maximum number of bytes in the names of pending directories.
const WAITING: usize = 64 << 20;

/// The timeout of a search.
const DEADLINE: Duration = Duration::from_secs(30);

/// Matching takes time proportional to the product of the lengths of pattern and path. These are the limits of that
/// product for a whole search, for one turn, and for work that needs no turn.
const WORK: u64 = 4 << 30;
const TURN: u64 = 8 << 20;
const AT_ONCE: u64 = 256 << 10;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Matcher {
    pub(super) pattern: Pattern,
    /// The length of the pattern in bytes.
    pub(super) length: usize,
    /// Without `**`, nothing below this depth matches.
    pub(super) depth: usize,
}

impl Matcher {
    fn estimate_work(&self, path: usize) -> u64 {
        (self.length as u64 + 1) * (path as u64 + 1)
    }
}

/// A search in progress.
#[derive(Debug)]
pub(super) struct Search {
    matcher: Arc<Matcher>,
    /// The pending directories, relative to the start of the search.
    left: Vec<String>,
    waiting: usize,
    /// The first files in path order, one more than a model gets.
    found: BinaryHeap<String>,
    directories: usize,
    entries: usize,
    work: u64,
    start: Start,
}

/// Some entries of one directory.
struct Part {
    matcher: Arc<Matcher>,
    directory: String,
    entries: std::vec::IntoIter<Entry>,
    directories: Vec<String>,
    /// Files, and whether each is a link whose target must be checked.
    files: Vec<(String, bool)>,
    work: u64,
}

impl Search {
    pub(super) fn new(matcher: Matcher) -> Self {
        Search {
            matcher: Arc::new(matcher),
            left: vec![String::new()],
            waiting: 0,
            found: BinaryHeap::new(),
            directories: 0,
            entries: 0,
            work: 0,
            start: Start::now(),
        }
    }

    /// Returns the next pending directory.
    pub(super) fn next_directory(&mut self) -> Option<String> {
        let next = self.left.pop()?;
        self.waiting -= next.len();
        Some(next)
    }

    /// Processes the entries of a directory. Returns the matching links, whose targets must be checked.
    pub(super) async fn process_entries(
        &mut self,
        directory: String,
        entries: Vec<Entry>,
    ) -> Result<Vec<String>> {
        self.directories += 1;
        self.entries += entries.len();
        if self.entries > ENTRIES {
            let text =
                format!("there are more than {ENTRIES} files: pass a directory with fewer files as `cwd`");
            return Err(Error::new(Code::TooLarge, text));
        }
        let longest = entries.iter().map(|entry| entry.name.len()).sum::<usize>()
            + entries.len() * (directory.len() + 1);
        let small = self.matcher.estimate_work(longest) <= AT_ONCE;
        let mut part = Part {
            matcher: Arc::clone(&self.matcher),
            directory,
            entries: entries.into_iter(),
            directories: Vec::new(),
            files: Vec::new(),
            work: 0,
        };
        let mut links = Vec::new();
        loop {
            part =
                if small { part.match_entries() } else { turns::take(move || part.match_entries()).await? };
            self.merge_part(&mut part, &mut links)?;
            if part.entries.len() == 0 {
                return Ok(links);
            }
        }
    }

    /// Adds the result of a turn.
    fn merge_part(&mut self, part: &mut Part, links: &mut Vec<String>) -> Result<()> {
        for directory in part.directories.drain(..) {
            if self.directories < DIRECTORIES {
                self.waiting += directory.len();
                self.left.push(directory);
            }
        }
        for (file, is_link) in part.files.drain(..) {
            if is_link { links.push(file) } else { self.keep_file(file) }
        }
        self.work += std::mem::take(&mut part.work);
        if self.waiting > WAITING {
            let text = "there are too many directories: pass one of them as `cwd`";
            return Err(Error::new(Code::TooLarge, text));
        }
        self.in_time()
    }

    /// Returns whether time is left.
    pub(super) fn in_time(&self) -> Result<()> {
        if self.work <= WORK && self.start.elapsed() <= DEADLINE {
            return Ok(());
        }
        let text =
            "the search took too long: shorten the pattern, or pass a directory with fewer files as `cwd`";
        Err(Error::new(Code::Timeout, text))
    }

    /// Returns whether a file would be among those that a model gets, or prove that there are more.
    pub(super) fn should_keep(&self, file: &str) -> bool {
        self.found.len() <= MAX_PATHS || self.found.peek().is_some_and(|last| file < last.as_str())
    }

    /// Keeps a file, if it is among the first.
    pub(super) fn keep_file(&mut self, file: String) {
        if self.should_keep(&file) {
            self.found.push(file);
            if self.found.len() > MAX_PATHS + 1 {
                self.found.pop();
            }
        }
    }

    /// Returns the files in path order, and whether there are more.
    pub(super) fn into_files(self) -> (Vec<String>, bool) {
        let mut files = self.found.into_sorted_vec();
        let truncated = files.len() > MAX_PATHS || self.directories >= DIRECTORIES;
        files.truncate(MAX_PATHS);
        (files, truncated)
    }
}

impl Part {
    /// Matches entries for one turn.
    fn match_entries(mut self) -> Self {
        while self.work < TURN
            && let Some(entry) = self.entries.next()
        {
            let path = if self.directory.is_empty() {
                entry.name
            } else {
                format!("{}/{}", self.directory, entry.name)
            };
            self.work += self.matcher.estimate_work(path.len());
            match entry.stat.kind {
                Kind::Directory if path.split('/').count() < self.matcher.depth => {
                    self.directories.push(path);
                }
                Kind::File if self.matcher.pattern.is_match(&path) => self.files.push((path, false)),
                // A link to a file counts as a file.
                Kind::Link(_) if self.matcher.pattern.is_match(&path) => self.files.push((path, true)),
                _ => {}
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::sandbox::Stat;

    fn matcher(pattern: &str) -> Matcher {
        let read = super::super::pattern::read(pattern).unwrap();
        Matcher { pattern: read, length: pattern.len(), depth: usize::MAX }
    }

    fn file(name: String) -> Entry {
        Entry { name, stat: Stat { kind: Kind::File, size: 0, mode: 0o644, mtime: None, version: None } }
    }

    /// Runs a future next to a task that is always ready, and returns how often that task ran.
    fn turns_beside(work: impl AsyncFnOnce()) -> u64 {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let turns = Rc::new(Cell::new(0));
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let counted = Rc::clone(&turns);
            let other = tokio::task::spawn_local(async move {
                loop {
                    counted.set(counted.get() + 1);
                    tokio::task::yield_now().await;
                }
            });
            work().await;
            other.abort();
        });
        turns.get()
    }

    /// The product of both is that of some turns.
    fn costly() -> (Matcher, Vec<Entry>) {
        let entries = (0..200).map(|number| file(format!("{number}{}", "a".repeat(197)))).collect();
        (matcher(&"*a".repeat(500)), entries)
    }

    #[test]
    fn others_have_their_turn_beside_a_search() {
        let beside = turns_beside(async || {
            let (matcher, entries) = costly();
            let mut search = Search::new(matcher);
            search.process_entries(String::new(), entries).await.unwrap();
            assert!(search.work > 4 * TURN);
        });
        assert!(beside > 0);
        // The control: matched on the thread of the caller.
        let beside = turns_beside(async || {
            let (matcher, entries) = costly();
            let entries = entries.into_iter();
            let (directory, directories, files) = (String::new(), Vec::new(), Vec::new());
            let matcher = Arc::new(matcher);
            let mut part = Part { matcher, directory, entries, directories, files, work: 0 };
            while part.entries.len() > 0 {
                part.work = 0;
                part = part.match_entries();
            }
        });
        assert_eq!(beside, 0);
    }

    #[test]
    fn a_search_has_an_end() {
        let mut search = Search::new(matcher("*"));
        search.work = WORK + 1;
        assert_eq!(search.in_time().unwrap_err().code, Code::Timeout);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut search = Search::new(matcher("*"));
        search.entries = ENTRIES;
        let looked = search.process_entries(String::new(), vec![file("a".into())]);
        assert_eq!(runtime.block_on(looked).unwrap_err().code, Code::TooLarge);
        let mut search = Search::new(matcher("*"));
        search.waiting = WAITING;
        let stat = Stat { kind: Kind::Directory, size: 0, mode: 0o755, mtime: None, version: None };
        let looked = search.process_entries(String::new(), vec![Entry { name: "a".into(), stat }]);
        assert_eq!(runtime.block_on(looked).unwrap_err().code, Code::TooLarge);
    }

    #[test]
    fn the_first_files_are_kept() {
        let mut search = Search::new(matcher("*"));
        let mut names: Vec<String> =
            (0..3 * MAX_PATHS).map(|number| format!("{:05}", number * 7919 % 10_007)).collect();
        for name in &names {
            search.keep_file(name.clone());
        }
        names.sort_unstable();
        names.truncate(MAX_PATHS);
        assert_eq!(search.into_files(), (names, true));
    }
}
