//! File operations.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use koze_protocol::Change;
use rustix::fs::{Access, AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::message::{Code, Entry, Fault, Kind, Place, Stat};
use crate::place::{self, At, fault};
use crate::tree::{self, unused_name};

/// The maximum number of dangling links in a chain, and of retries when a name keeps changing.
const MAX_ATTEMPTS: usize = 40;

/// A staging file. Dropping it removes it.
pub(crate) struct Pending {
    directory: At,
    temporary: Option<OsString>,
    name: OsString,
    place: Place,
}

impl Pending {
    /// Renames it to its final name.
    pub(crate) fn commit(mut self) -> Result<(), Fault> {
        let directory = &self.directory.descriptor;
        if let Some(temporary) = &self.temporary {
            rustix::fs::renameat(directory, temporary, directory, &self.name)
                .map_err(|error| fault(&error.into(), &self.place.path))?;
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = rustix::fs::unlinkat(&self.directory.descriptor, temporary, AtFlags::empty());
        }
    }
}

/// Opens a file for reading.
pub(crate) fn open(place: &Place) -> Result<OwnedFd, Fault> {
    let at = place::resolve_place(place, true)?;
    file_mode(&at, place)?;
    reopen_file(&at, OFlags::RDONLY, place)
}

/// A file that was created for an append. Dropping it removes the file, unless another file has its name by then.
pub(crate) struct Made {
    directory: At,
    name: OsString,
    /// Its device and inode numbers.
    file: (u64, u64),
    kept: bool,
}

impl Made {
    fn new(directory: At, name: OsString, file: &OwnedFd) -> io::Result<Self> {
        let stat = rustix::fs::fstat(file)?;
        Ok(Made { directory, name, file: (stat.st_dev, stat.st_ino), kept: false })
    }

    /// Keeps the file.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let directory = &self.directory.descriptor;
        let found = rustix::fs::statat(directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if !self.kept && found.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.file) {
            let _ = rustix::fs::unlinkat(directory, &self.name, AtFlags::empty());
        }
    }
}

/// Opens a file for appending; creates it if it does not exist.
pub(crate) fn append(place: &Place) -> Result<(OwnedFd, Option<Made>), Fault> {
    for _ in 0..MAX_ATTEMPTS {
        let (directory, name) = match find_target(place)? {
            Target::There(at) => {
                file_mode(&at, place)?;
                let kind =
                    rustix::fs::fstatfs(&at.descriptor).map_err(|error| fault(&error.into(), &place.path))?;
                if kind.f_type == place::PROC {
                    return Err(fault(&Errno::ACCESS.into(), &place.path));
                }
                return Ok((reopen_file(&at, OFlags::WRONLY | OFlags::APPEND, place)?, None));
            }
            Target::Missing(directory, name) => (directory, name),
        };
        let flags = OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        match create_file(&directory, &name, flags, 0o644) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            Ok(file) => {
                let made = Made::new(directory, name, &file);
                return made.map(|made| (file, Some(made))).map_err(|error| fault(&error, &place.path));
            }
            Err(error) => return Err(fault(&error, &place.path)),
        }
    }
    Err(no_free_name(place))
}

/// Creates a staging file next to the path.
pub(crate) fn create(place: &Place) -> Result<(OwnedFd, Pending), Fault> {
    let (directory, name, mode) = find_parent(place)?;
    let (file, temporary) = create_temporary(&directory, mode).map_err(|error| fault(&error, &place.path))?;
    Ok((file, Pending { directory, temporary: Some(temporary), name, place: place.clone() }))
}

/// Creates an unnamed file next to the path, for bytes to append that do not fit in memory. If the user may not create
/// files there, it is in `/tmp`.
pub(crate) fn create_unnamed(place: &Place) -> Result<File, Fault> {
    let (directory, ..) = find_parent(place)?;
    unnamed_in(&directory, place).or_else(|fault| {
        let scratch = Place { root: "/".to_owned(), path: "/tmp".to_owned() };
        match place::resolve_directory(&scratch) {
            Ok(directory) if fault.why == Code::PermissionDenied => unnamed_in(&directory, place),
            _ => Err(fault),
        }
    })
}

fn unnamed_in(directory: &At, place: &Place) -> Result<File, Fault> {
    let unnamed = || {
        let name = unused_name()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory.descriptor, &name, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::unlinkat(&directory.descriptor, &name, AtFlags::empty())?;
        Ok(File::from(file))
    };
    unnamed().map_err(|error: io::Error| fault(&error, &place.path))
}

/// Returns the directory of a file to write, its name there, and its permission bits.
fn find_parent(place: &Place) -> Result<(At, OsString, u32), Fault> {
    match find_target(place)? {
        Target::There(at) => {
            let mode = file_mode(&at, place)?;
            // A read-only file must not be replaced.
            rustix::fs::accessat(CWD, at.handle(), Access::WRITE_OK, AtFlags::empty())
                .map_err(|error| fault(&error.into(), &place.path))?;
            let cut = at.real.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            let directory = place::open_known(&at.real[..cut.max(1)], place)?;
            Ok((directory, OsStr::from_bytes(&at.real[cut + 1..]).to_owned(), mode))
        }
        Target::Missing(directory, name) => Ok((directory, name, 0o644)),
    }
}

enum Target {
    There(At),
    Missing(At, OsString),
}

/// Resolves the file to write. A dangling link is followed to where the file would be.
fn find_target(place: &Place) -> Result<Target, Fault> {
    let mut next = place.clone();
    for _ in 0..MAX_ATTEMPTS {
        if next.path.ends_with('/') {
            return Err(Fault::new(Code::IsDirectory, format!("{} is the path of a directory", place.path)));
        }
        match place::resolve_place(&next, true) {
            // Removed since it was opened: the kernel's path for it is not its name.
            Ok(at) if at.stat().is_ok_and(|stat| stat.st_nlink == 0) => continue,
            Ok(at) => return Ok(Target::There(at)),
            Err(fault) if fault.why == Code::NotFound => {}
            Err(fault) => return Err(fault),
        }
        let (directory, name) = place::entry_made(&next)?;
        match rustix::fs::readlinkat(&directory.descriptor, &name, Vec::new()) {
            Ok(target) => {
                let (Ok(target), Ok(above)) = (target.to_str(), std::str::from_utf8(&directory.real)) else {
                    return Err(Fault::new(
                        Code::InvalidInput,
                        format!("the target of the symbolic link {} is not UTF-8", place.path),
                    ));
                };
                next.path =
                    if target.starts_with('/') { target.to_owned() } else { format!("{above}/{target}") };
            }
            Err(Errno::NOENT) => return Ok(Target::Missing(directory, name)),
            // It exists after all.
            Err(Errno::INVAL) => {}
            Err(error) => return Err(fault(&error.into(), &place.path)),
        }
    }
    Err(no_free_name(place))
}

fn no_free_name(place: &Place) -> Fault {
    Fault::new(Code::Unavailable, format!("{} keeps changing, or its symbolic links form a loop", place.path))
}

/// Returns the permission bits of a regular file, and an error for anything else: opening a pipe may block, and opening
/// a device may have side effects.
pub(crate) fn file_mode(at: &At, place: &Place) -> Result<u32, Fault> {
    let stat = at.stat().map_err(|error| fault(&error, &place.path))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(stat.st_mode & 0o7777),
        FileType::Directory => Err(fault(&Errno::ISDIR.into(), &place.path)),
        _ => Err(Fault::new(Code::InvalidInput, format!("{} is a pipe, socket or device", place.path))),
    }
}

pub(crate) fn reopen_file(at: &At, flags: OFlags, place: &Place) -> Result<OwnedFd, Fault> {
    let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::open(at.handle(), flags, Mode::empty()).map_err(|error| fault(&error.into(), &place.path))
}

fn create_file(directory: &At, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&directory.descriptor, name, flags, Mode::from_raw_mode(mode))?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    Ok(file)
}

fn create_temporary(directory: &At, mode: u32) -> io::Result<(OwnedFd, OsString)> {
    let name = unused_name()?;
    let file = create_file(directory, &name, OFlags::CREATE | OFlags::EXCL, mode)?;
    Ok((file, name))
}

/// The maximum number of entries in a page of a directory, and of bytes in their names and link targets. The guest
/// answers one request at a time, and a directory can have any number of entries.
const PAGE: usize = 1024;
const PAGE_BYTES: usize = 256 << 10;

/// A page of a directory, and the position of the next page, if any.
pub(crate) type Page = (Vec<Entry>, Option<i64>);

/// Lists one page of a directory from a position on, 0 at first. Also returns the position of the next page, if there is
/// more. Positions are the kernel's, and hold for every descriptor of the directory.
pub(crate) fn list(place: &Place, from: i64) -> Result<Page, Fault> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    let next = visit_page(place, from, |entry| {
        let target = if let Kind::Link(target) = &entry.stat.kind { target.len() } else { 0 };
        bytes += entry.name.len() + target;
        page.push(entry);
        Ok::<_, Fault>(page.len() < PAGE && bytes < PAGE_BYTES)
    })?;
    Ok((page, next))
}

/// Calls a function for each entry of a directory.
pub(crate) fn visit_entries<E: From<Fault>>(
    place: &Place,
    mut with: impl FnMut(Entry) -> Result<(), E>,
) -> Result<(), E> {
    visit_page(place, 0, |entry| with(entry).map(|()| true)).map(drop)
}

/// Calls a function for each entry of a directory from a position on, until it returns false. Returns the position of
/// the next entry, or `None` at the end of the directory.
fn visit_page<E: From<Fault>>(
    place: &Place,
    from: i64,
    mut with: impl FnMut(Entry) -> Result<bool, E>,
) -> Result<Option<i64>, E> {
    let at = place::resolve_directory(place)?;
    let opened = reopen_file(&at, OFlags::RDONLY | OFlags::DIRECTORY, place)?;
    let failed = |error: Errno| fault(&error.into(), &place.path);
    let mut directory = Dir::read_from(&opened).map_err(failed)?;
    if from != 0 {
        directory.seek(from).map_err(failed)?;
    }
    for entry in directory {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                let link = rustix::fs::readlinkat(&opened, name, Vec::new()).ok();
                let link = link.map(|target| target.to_string_lossy().into_owned());
                let name = name.to_string_lossy().into_owned();
                if !with(Entry { name, stat: to_metadata(&stat, link) })? {
                    return Ok(Some(entry.offset()));
                }
            }
            // Removed in the meantime.
            Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error).into()),
        }
    }
    Ok(None)
}

/// The largest integer that JavaScript represents exactly, as it does all smaller ones.
const LARGEST_INTEGER: i64 = (1 << 53) - 1;

/// Describes a path.
pub(crate) fn stat(place: &Place) -> Result<Stat, Fault> {
    let at = place::resolve_place(place, false)?;
    let stat = at.stat().map_err(|error| fault(&error, &place.path))?;
    let link = rustix::fs::readlinkat(&at.descriptor, "", Vec::new()).ok();
    Ok(to_metadata(&stat, link.map(|target| target.to_string_lossy().into_owned())))
}

/// Describes an open file.
///
/// # Errors
/// The errors of the kernel.
pub fn describe(file: impl AsFd) -> io::Result<Stat> {
    Ok(to_metadata(&rustix::fs::fstat(file)?, None))
}

fn to_metadata(stat: &rustix::fs::Stat, link: Option<String>) -> Stat {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link(link.unwrap_or_default()),
        _ => Kind::Other,
    };
    Stat {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        mtime: Some(mtime_in_millis(stat)),
        version: Some(version_of(stat)),
    }
}

/// Returns the time of the last change of the content, in milliseconds since the epoch. A program can set it to any value.
fn mtime_in_millis(stat: &rustix::fs::Stat) -> i64 {
    let milliseconds = stat.st_mtime_nsec.cast_signed() / 1_000_000;
    let mtime = stat.st_mtime.saturating_mul(1000).saturating_add(milliseconds);
    mtime.clamp(-LARGEST_INTEGER, LARGEST_INTEGER)
}

/// Returns a number for a state of a file. Programs can set the time of the content, but not that of the metadata, which
/// every change moves, within the precision of the kernel's clock.
fn version_of(stat: &rustix::fs::Stat) -> u64 {
    let mut hasher = DefaultHasher::new();
    (stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec)
        .hash(&mut hasher);
    hasher.finish() >> 12
}

/// Makes a change.
pub(crate) fn apply_change(change: &Change) -> Result<(), Fault> {
    match change {
        Change::MakeDir(place) => make_dir(place),
        Change::MakeLink { root, path, target } => make_link(&to_place(root, path), target),
        Change::SetMode { root, path, mode } => set_mode(&to_place(root, path), *mode),
        Change::Remove(place) => remove_path(place),
        Change::Rename { from, to } => {
            let is_renamed = rename(from, to)?;
            if is_renamed { Ok(()) } else { copy_over(from, to) }
        }
    }
}

fn to_place(root: &str, path: &str) -> Place {
    Place { root, path }.owned()
}

/// Creates a directory and its parents.
fn make_dir(place: &Place) -> Result<(), Fault> {
    place::make_dir(place).map(drop)
}

/// Creates a symbolic link.
fn make_link(place: &Place, target: &str) -> Result<(), Fault> {
    if target.is_empty() || target.contains('\0') {
        return Err(Fault::new(
            Code::InvalidInput,
            "the target of a symbolic link must not be empty or contain a NUL byte",
        ));
    }
    let (directory, name) = place::resolve_entry(place)?;
    rustix::fs::symlinkat(target, &directory.descriptor, &name)
        .map_err(|error| fault(&error.into(), &place.path))
}

/// Sets permission bits.
fn set_mode(place: &Place, mode: u32) -> Result<(), Fault> {
    if mode > 0o7777 {
        return Err(Fault::new(Code::InvalidInput, "a mode must be at most 7777 in octal"));
    }
    let at = place::resolve_place(place, true)?;
    rustix::fs::chmodat(CWD, at.handle(), Mode::from_raw_mode(mode), AtFlags::empty())
        .map_err(|error| fault(&error.into(), &place.path))
}

/// Removes a file, a link, or a directory with its content.
fn remove_path(place: &Place) -> Result<(), Fault> {
    let (directory, name) = place::resolve_entry(place)?;
    tree::remove(directory.descriptor.as_fd(), &name, false).map_err(|error| fault(&error, &place.path))
}

/// Renames the first path to the second. Returns false if they are on different mounts, which requires a copy.
pub(crate) fn rename(from: &Place, to: &Place) -> Result<bool, Fault> {
    let (source, old) = place::resolve_entry(from)?;
    let (target, name) = place::resolve_entry(to)?;
    match rustix::fs::renameat(&source.descriptor, &old, &target.descriptor, &name) {
        Ok(()) => Ok(true),
        Err(Errno::XDEV) => Ok(false),
        Err(Errno::NOENT) => Err(fault(&Errno::NOENT.into(), &from.path)),
        Err(error) => Err(fault(&error.into(), &to.path)),
    }
}

/// Renames across mounts: copies to a staging path next to the target, so that a partial copy is never visible there.
pub(crate) fn copy_over(from: &Place, to: &Place) -> Result<(), Fault> {
    let (source, old) = place::resolve_entry(from)?;
    let (target, name) = place::resolve_entry(to)?;
    let temporary = unused_name().map_err(|error| fault(&error, &to.path))?;
    let copied = tree::copy_entry(source.descriptor.as_fd(), &old, target.descriptor.as_fd(), &temporary)
        .map_err(|error| fault(&error, &from.path))
        .and_then(|()| {
            rustix::fs::renameat(&target.descriptor, &temporary, &target.descriptor, &name)
                .map_err(|error| fault(&error.into(), &to.path))
        });
    if copied.is_err() {
        let _ = tree::remove(target.descriptor.as_fd(), &temporary, false);
        return copied;
    }
    tree::remove(source.descriptor.as_fd(), &old, false).map_err(|error| fault(&error, &from.path))
}
