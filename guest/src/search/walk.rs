//! Walks a tree in the order of its names, component by component.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use koze_protocol::search::{Search, is_ignored};
use rustix::fs::{AtFlags, Dir, FileType, OFlags};

use super::batch::{Directory, Item};
use crate::files::reopen_file;
use crate::message::{Code, Fault, Place};
use crate::place::{self, fault};

/// How deep directories are kept open until all that they hold was visited. Deeper files are opened by their paths.
const MAX_OPEN: usize = 64;

/// Why a walk cannot go on.
#[derive(Debug)]
pub(super) enum Failed {
    /// There are too many files or directories.
    TooMany,
    /// The guest has too many files open.
    Fault(Fault),
}

/// A walk.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    place: &'a Place,
    search: &'a Search,
    /// What is left, the next one last.
    left: Vec<Left>,
    directories: u64,
    entries: u64,
}

/// Something to visit.
#[derive(Debug)]
struct Left {
    above: Arc<Directory>,
    name: Box<str>,
    is_directory: bool,
}

impl<'a> Walk<'a> {
    /// Starts at a directory.
    ///
    /// # Errors
    /// The error of opening it.
    pub(super) fn start(place: &'a Place, search: &'a Search) -> Result<Self, Fault> {
        let mut walk = Walk { place, search, left: Vec::new(), directories: 0, entries: 0 };
        walk.list("", true)?;
        Ok(walk)
    }

    /// Returns what is next.
    pub(super) fn next(&mut self) -> Result<Option<Item>, Failed> {
        self.within_limits()?;
        while let Some(Left { above, name, is_directory }) = self.left.pop() {
            if !is_directory {
                return Ok(Some(Item::File { directory: above, name }));
            }
            let path = above.below(&name);
            drop(above);
            match self.list(&path, false) {
                Ok(()) => self.within_limits()?,
                // It was removed meanwhile.
                Err(fault) if fault.why == Code::NotFound => {}
                Err(fault) if fault.why == Code::Unavailable => return Err(Failed::Fault(fault)),
                Err(_) => return Ok(Some(Item::Unreadable(path))),
            }
        }
        Ok(None)
    }

    fn within_limits(&self) -> Result<(), Failed> {
        let is_within =
            self.directories <= self.search.max_directories && self.entries <= self.search.max_entries;
        if is_within { Ok(()) } else { Err(Failed::TooMany) }
    }

    /// Reads a directory. Below the start, it must be one itself, not a link to one.
    fn list(&mut self, path: &str, is_start: bool) -> Result<(), Fault> {
        let place = place_below(self.place, path);
        let opened = open_directory(&place, is_start)?;
        self.directories += 1;
        let is_near = path.split('/').count() < MAX_OPEN;
        let failed = |error: rustix::io::Errno| fault(&error.into(), &place.path);
        let is_proc = rustix::fs::fstatfs(&opened).map_or(true, |about| about.f_type == place::PROC);
        let mut found: Vec<(Box<str>, bool)> = Vec::new();
        for entry in Dir::read_from(&opened).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // No path can name what is not UTF-8.
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") || (self.search.skip_ignored && is_ignored(name)) {
                continue;
            }
            self.entries += 1;
            if self.entries > self.search.max_entries {
                return Ok(());
            }
            let kind = match entry.file_type() {
                // Some file systems do not tell.
                FileType::Unknown => {
                    rustix::fs::statat(&opened, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
                }
                known => known,
            };
            if matches!(kind, FileType::RegularFile | FileType::Directory) {
                found.push((name.into(), kind == FileType::Directory));
            }
        }
        found.sort_unstable_by(|one, other| other.0.cmp(&one.0));
        // Each file of /proc may be one that tools must not read.
        let descriptor = (is_near && !is_proc).then_some(opened);
        let above = Arc::new(Directory { path: path.to_owned(), descriptor });
        self.left.extend(found.into_iter().map(|(name, is_directory)| Left {
            above: Arc::clone(&above),
            name,
            is_directory,
        }));
        Ok(())
    }
}

/// Opens a directory.
fn open_directory(place: &Place, follow: bool) -> Result<OwnedFd, Fault> {
    let at = place::resolve_place(place, follow)?;
    let stat = at.stat().map_err(|error| fault(&error, &place.path))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(Fault::new(Code::NotADirectory, format!("{} is not a directory", place.path)));
    }
    reopen_file(&at, OFlags::RDONLY | OFlags::DIRECTORY, place)
}

/// Returns the place of a path below the start.
pub(super) fn place_below(start: &Place, path: &str) -> Place {
    let path = match path {
        "" => start.path.clone(),
        _ => format!("{}/{path}", start.path.trim_end_matches('/')),
    };
    Place { root: start.root.clone(), path }
}
