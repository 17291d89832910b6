//! What a thread searches at once.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How many items a batch has at most.
const ITEMS: usize = 64;
/// How many directories it keeps open at most.
const DIRECTORIES: usize = 8;

/// A directory that is being walked.
#[derive(Debug)]
pub(super) struct Directory {
    /// Its path below the start of the search.
    pub(super) path: String,
    /// Its descriptor, unless its files must be opened by their paths.
    pub(super) descriptor: Option<OwnedFd>,
}

impl Directory {
    /// Returns the path of an entry below the start of the search.
    pub(super) fn below(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }
}

/// Something that the walk has found.
#[derive(Debug)]
pub(super) enum Item {
    /// A file.
    File {
        /// The directory that holds it.
        directory: Arc<Directory>,
        /// Its name there.
        name: Box<str>,
    },
    /// The start of the search, which is a file.
    Opened(File),
    /// A directory that cannot be read, with its path below the start.
    Unreadable(String),
}

/// Some items in the order of the walk.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) items: Vec<Item>,
    /// The last directory, and how many there are.
    directory: Option<Arc<Directory>>,
    directories: usize,
}

impl Batch {
    pub(super) fn of(item: Item) -> Self {
        Batch { items: vec![item], ..Batch::default() }
    }

    pub(super) fn push(&mut self, item: Item) {
        if let Item::File { directory, .. } = &item
            && self.directory.as_ref().is_none_or(|last| !Arc::ptr_eq(last, directory))
        {
            self.directory = Some(Arc::clone(directory));
            self.directories += 1;
        }
        self.items.push(item);
    }

    pub(super) fn is_full(&self) -> bool {
        self.items.len() >= ITEMS || self.directories >= DIRECTORIES
    }
}
