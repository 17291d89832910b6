//! Checks that a state directory belongs to this user alone.
//!
//! All requests to a session's supervisor, all files of its sandboxes and the journals of builds pass through this
//! directory. Other users who own it, or can write to it or to a parent directory, could place their own socket or link
//! there.

use std::fmt;
use std::fs::File;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The maximum number of symbolic links in a path, as in the kernel.
const LINKS: usize = 40;
/// Write permission for the group, and for everybody.
const GROUP: u32 = 0o020;
const OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// The user ID that stands for users outside this user namespace.
const UNMAPPED: u32 = 65_534;

/// The reason why a state directory is not safe.
#[derive(Debug)]
pub(crate) struct Distrust {
    /// The unsafe directory or link.
    place: PathBuf,
    owner: u32,
    mode: u32,
    fault: Fault,
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Another user owns the state directory or one inside it.
    Owner,
    /// Other users can write to it.
    Writable,
    /// Another user owns a parent directory.
    OwnerAbove,
    /// Other users can replace the entries of a parent directory.
    WritableAbove,
    /// Another user owns a symbolic link in the path.
    Link,
}

impl Distrust {
    /// Says which place is not safe.
    pub(crate) fn fact(&self) -> String {
        format!("others than you could change `{}`", self.place.display())
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Distrust { place, owner, mode, fault } = self;
        let (place, you) = (place.display(), effective_uid());
        let next = "choose a directory of your own with --state";
        match fault {
            Fault::Owner => write!(
                f,
                "the state directory {place} is owned by uid {owner}, who could read what is sent to its sandboxes; it \
                 must be owned by you (uid {you}): {next}"
            ),
            Fault::Writable => write!(
                f,
                "the state directory {place} (owned by uid {owner}, mode {mode:04o}) is writable by other users; only you \
                 (uid {you}) may write it: run `chmod go-w {place}`, or {next}"
            ),
            Fault::OwnerAbove => write!(
                f,
                "the state directory lies below {place}, which is owned by uid {owner}, who could replace it; each \
                 directory above it must be owned by you (uid {you}) or by root: {next}"
            ),
            Fault::WritableAbove => write!(
                f,
                "the state directory lies below {place} (owned by uid {owner}, mode {mode:04o}), in which other users may \
                 replace it; only you (uid {you}) or root may write there, unless it has the sticky bit: run \
                 `chmod go-w {place}`, or {next}"
            ),
            Fault::Link => write!(
                f,
                "the way to the state directory leads over the symbolic link {place}, which is owned by uid {owner}; it \
                 must be owned by you (uid {you}) or by root: {next}"
            ),
        }
    }
}

/// Checks all existing parent directories, links and the directory itself.
pub(crate) fn way_to(dir: &Path) -> Result<(), Distrust> {
    walk_path(dir, &mut 0, check_owned)
}

/// Checks a directory inside one that was checked, if it exists.
pub(crate) fn inside(dir: &Path) -> Result<(), Distrust> {
    fs::symlink_metadata(dir).map_or(Ok(()), |found| check_owned(dir, &found))
}

/// Checks an open directory.
///
/// # Errors
/// Returns an error without the directory's path, because other users may see it.
pub(crate) fn opened(dir: &File) -> io::Result<()> {
    let safe = check_owned(Path::new(""), &dir.metadata()?);
    safe.map_err(|why| io::Error::new(io::ErrorKind::PermissionDenied, changed(&why)))
}

/// Formats the reason without a path, for readers who must not learn where the directory is.
pub(crate) fn changed(why: &Distrust) -> String {
    let Distrust { owner, mode, .. } = why;
    format!(
        "the state directory is not yours alone any more (owned by uid {owner}, mode {mode:04o}); run \
         `koze sandboxes` to see where, or name another one with --state"
    )
}

/// Checks one directory of the path.
type Check = fn(&Path, &Metadata) -> Result<(), Distrust>;

fn walk_path(path: &Path, links: &mut usize, check: Check) -> Result<(), Distrust> {
    let ways: Vec<&Path> = path.ancestors().filter(|way| !way.as_os_str().is_empty()).collect();
    for way in ways.into_iter().rev() {
        // This user creates missing directories. Inaccessible ones fail later, with an error that says so.
        let Ok(found) = fs::symlink_metadata(way) else { return Ok(()) };
        let check = if way == path { check } else { check_above };
        if !found.is_symlink() {
            check(way, &found)?;
            continue;
        }
        if !ours_or_roots(&found) {
            return Err(distrust(way, &found, Fault::Link));
        }
        *links += 1;
        // The kernel does not follow more links.
        if *links <= LINKS
            && let Ok(target) = fs::read_link(way)
        {
            walk_path(&way.parent().unwrap_or(way).join(target), links, check)?;
        }
    }
    Ok(())
}

/// Checks the state directory itself or one inside it.
fn check_owned(dir: &Path, found: &Metadata) -> Result<(), Distrust> {
    // A file gets a better error where it is used.
    if found.is_file() {
        return Ok(());
    }
    if found.uid() != effective_uid() {
        return Err(distrust(dir, found, Fault::Owner));
    }
    // Symbolic links in place of a directory always have all permissions.
    if is_writable_by_others(found) {
        return Err(distrust(dir, found, Fault::Writable));
    }
    Ok(())
}

fn check_above(dir: &Path, found: &Metadata) -> Result<(), Distrust> {
    if !ours_or_roots(found) {
        return Err(distrust(dir, found, Fault::OwnerAbove));
    }
    if is_writable_by_others(found) && found.mode() & STICKY == 0 {
        return Err(distrust(dir, found, Fault::WritableAbove));
    }
    Ok(())
}

fn distrust(place: &Path, found: &Metadata, fault: Fault) -> Distrust {
    Distrust { place: place.to_owned(), owner: found.uid(), mode: found.mode() & 0o7777, fault }
}

fn ours_or_roots(found: &Metadata) -> bool {
    let owner = found.uid();
    owner == effective_uid() || owner == 0 || (owner == UNMAPPED && in_user_namespace())
}

/// Returns whether a user other than the owner can write.
fn is_writable_by_others(found: &Metadata) -> bool {
    let mode = found.mode();
    !found.is_symlink() && (mode & OTHERS != 0 || (mode & GROUP != 0 && !is_own_group(found.gid())))
}

/// Returns whether a group is the private group of its user, with the same number and no other member. Group-writable
/// directories are common on systems that create such groups.
fn is_own_group(group: u32) -> bool {
    let own = rustix::process::getegid().as_raw() == group && effective_uid() == group;
    own && fs::read_to_string("/etc/group").is_ok_and(|groups| {
        groups.lines().all(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, id, members] = fields[..] else { return true };
            id.parse() != Ok(group) || members.split(',').all(|member| member.is_empty() || member == name)
        })
    })
}

/// Returns whether some owners have no number in this user namespace, such as the host's root in a rootless container.
fn in_user_namespace() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| {
        let first: Vec<&str> = map.split_whitespace().take(3).collect();
        first != ["0", "0", "4294967295"]
    })
}

fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
