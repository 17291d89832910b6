//! Walks a directory whose content may change meanwhile. Follows no links.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use koze_protocol::tar::{Contents, MAX_ENTRIES};
use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;

use crate::files::reopen_file;
use crate::message::{Code, Fault, Place};
use crate::place::{self, PROC, fault};
use crate::stream::{MAX_ATTEMPTS, MAX_DEPTH, Opened, Stop, open_entry};
use crate::tree;

/// An entry's path below the directory, empty for the directory itself, and its path in the sandbox, for messages.
pub(super) struct Name {
    pub(super) path: String,
    pub(super) absolute: String,
}

impl Name {
    pub(super) fn failed(&self, error: &io::Error) -> Stop {
        fault(error, &self.absolute).into()
    }

    pub(super) fn changed(&self) -> Stop {
        let text = format!("`{}` was changed while it was archived: try again", self.absolute);
        Fault::new(Code::Unavailable, text).into()
    }
}

/// Receives what a walk finds: each directory before its content.
pub(super) trait Sink {
    fn directory(&mut self, name: &Name, stat: &Stat) -> Result<(), Stop>;

    fn link(&mut self, name: &Name, target: String, stat: &Stat) -> Result<(), Stop>;

    /// Returns the size in bytes.
    fn file(&mut self, name: &Name, file: File, stat: &Stat) -> Result<u64, Stop>;
}

/// Walks a directory, in the order of names. Returns what it contains.
pub(super) fn walk_directory(place: &Place, sink: &mut impl Sink) -> Result<Contents, Stop> {
    let mut walk = Walk { place, sink, open: Vec::new(), contents: Contents::default() };
    walk.all()?;
    Ok(walk.contents)
}

/// A directory in progress: its path below the archived one, and the remaining names, the next one last.
struct Open {
    path: String,
    directory: OwnedFd,
    device: u64,
    left: Vec<OsString>,
}

struct Walk<'a, S: Sink> {
    place: &'a Place,
    sink: &'a mut S,
    open: Vec<Open>,
    contents: Contents,
}

impl<S: Sink> Walk<'_, S> {
    fn all(&mut self) -> Result<(), Stop> {
        let at = place::resolve_directory(self.place)?;
        let stat = at.stat().map_err(|error| fault(&error, &self.place.path))?;
        let directory = reopen_file(&at, OFlags::RDONLY | OFlags::DIRECTORY, self.place)?;
        self.directory(String::new(), directory, &stat)?;
        while let Some(open) = self.open.last_mut() {
            match open.left.pop() {
                Some(name) => self.entry(&name)?,
                None => drop(self.open.pop()),
            }
        }
        Ok(())
    }

    /// Opens an entry of the innermost directory and passes it on. The entry may change at any time.
    fn entry(&mut self, name: &OsStr) -> Result<(), Stop> {
        let Some(open) = self.open.last() else { return Ok(()) };
        let below =
            |name: &str| if open.path.is_empty() { name.to_owned() } else { format!("{}/{name}", open.path) };
        let Some(path) = name.to_str().map(below) else {
            let message = format!(
                "the name of `{}` is not UTF-8: rename it, or remove it",
                self.name(below(&name.to_string_lossy())).absolute
            );
            return Err(Fault::new(Code::Unsupported, message).into());
        };
        let found = self.name(path);
        for _ in 0..MAX_ATTEMPTS {
            let Some(open) = self.open.last() else { break };
            match open_entry(open.directory.as_fd(), name) {
                Ok((Opened::File(file), stat)) => {
                    let size = self.sink.file(&found, file, &stat)?;
                    return self.count(size);
                }
                Ok((Opened::Directory(directory), stat)) => {
                    self.count(0)?;
                    return self.directory(found.path, directory, &stat);
                }
                Ok((Opened::Link(target), stat)) => {
                    self.count(0)?;
                    // Not every host can create such a link.
                    let Ok(target) = String::from_utf8(target) else {
                        let message = format!(
                            "the target of the link `{}` is not UTF-8: change it, or remove the link",
                            found.absolute
                        );
                        return Err(Fault::new(Code::Unsupported, message).into());
                    };
                    return self.sink.link(&found, target, &stat);
                }
                // A socket, pipe or device has no use elsewhere.
                Ok((Opened::Other, _)) => {
                    self.contents.skipped += 1;
                    return Ok(());
                }
                // It was removed meanwhile.
                Err(Errno::NOENT) => return Ok(()),
                // Its type has changed.
                Err(Errno::LOOP | Errno::NOTDIR | Errno::INVAL | Errno::NXIO) => {}
                Err(error) => return Err(found.failed(&error.into())),
            }
        }
        Err(found.changed())
    }

    fn directory(&mut self, path: String, directory: OwnedFd, stat: &Stat) -> Result<(), Stop> {
        let name = self.name(path);
        if self.open.len() >= MAX_DEPTH {
            let text = format!("{} is more than {MAX_DEPTH} directories deep", name.absolute);
            return Err(Fault::new(Code::TooLarge, text).into());
        }
        // `/proc` must not be archived: it also contains the guest's own process.
        if self.open.last().is_none_or(|above| above.device != stat.st_dev)
            && rustix::fs::fstatfs(&directory).map_or(true, |about| about.f_type == PROC)
        {
            return Err(name.failed(&Errno::ACCESS.into()));
        }
        let mut left = tree::list_names(&directory).map_err(|error| name.failed(&error))?;
        left.sort_unstable_by(|one, other| other.cmp(one));
        self.sink.directory(&name, stat)?;
        self.open.push(Open { path: name.path, directory, device: stat.st_dev, left });
        Ok(())
    }

    fn count(&mut self, bytes: u64) -> Result<(), Stop> {
        self.contents.entries += 1;
        self.contents.bytes += bytes;
        if self.contents.entries <= MAX_ENTRIES {
            return Ok(());
        }
        let message = format!("`{}` has more than {MAX_ENTRIES} files and directories", self.place.path);
        Err(Fault::new(Code::TooLarge, message).into())
    }

    fn name(&self, path: String) -> Name {
        let top = &self.place.path;
        let absolute = if path.is_empty() { top.clone() } else { format!("{top}/{path}") };
        Name { path, absolute }
    }
}
