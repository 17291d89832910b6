//! Whether a state directory is this user's alone.
//!
//! What a command sends to a session's supervisor, and every file of its sandboxes, goes by way of this directory. A user
//! who owns it, or may write it or a directory above it, could put a socket or a link of their own there.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most symbolic links on the way to a directory, as many as the kernel follows.
const LINKS: usize = 40;
/// Permission to write, of the group and of everybody.
const GROUP: u32 = 0o020;
const OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// The user that owners outside of this user namespace appear as.
const UNMAPPED: u32 = 65_534;

/// Why a state directory is not safe to use.
#[derive(Debug)]
pub(super) struct Distrust {
    /// The directory or link that is not safe.
    place: PathBuf,
    owner: u32,
    mode: u32,
    fault: Fault,
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The state directory, or one within it, is another user's.
    Owner,
    /// Other users may write it.
    Writable,
    /// A directory above it is another user's.
    OwnerAbove,
    /// Other users may replace what is in a directory above it.
    WritableAbove,
    /// A symbolic link on the way to it is another user's.
    Link,
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Distrust { place, owner, mode, fault } = self;
        let (place, you) = (place.display(), euid());
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

/// Checks every directory above this one and every link on the way, and the directory itself, as far as they exist.
pub(super) fn way_to(dir: &Path) -> Result<(), Distrust> {
    walk(dir, &mut 0, owned)
}

/// Checks a directory within one that was checked, if it exists.
pub(super) fn inside(dir: &Path) -> Result<(), Distrust> {
    fs::symlink_metadata(dir).map_or(Ok(()), |found| owned(dir, &found))
}

/// Checks a directory that is open.
///
/// # Errors
/// One for other users' eyes as well: it does not name the directory.
pub(super) fn opened(dir: &File) -> io::Result<()> {
    let safe = owned(Path::new(""), &dir.metadata()?);
    safe.map_err(|why| io::Error::new(io::ErrorKind::PermissionDenied, changed(&why)))
}

/// The same text without a path, for those who may not know where the directory is.
pub(super) fn changed(why: &Distrust) -> String {
    let Distrust { owner, mode, .. } = why;
    format!(
        "the state directory is not yours alone any more (owned by uid {owner}, mode {mode:04o}); run \
         `koze sandboxes` to see where, or name another one with --state"
    )
}

/// What a directory must be.
type Check = fn(&Path, &Metadata) -> Result<(), Distrust>;

fn walk(path: &Path, links: &mut usize, check: Check) -> Result<(), Distrust> {
    let ways: Vec<&Path> = path.ancestors().filter(|way| !way.as_os_str().is_empty()).collect();
    for way in ways.into_iter().rev() {
        // What is missing is made by this user; what cannot be looked at cannot be used, and that is said then.
        let Ok(found) = fs::symlink_metadata(way) else { return Ok(()) };
        let check = if way == path { check } else { above };
        if !found.is_symlink() {
            check(way, &found)?;
            continue;
        }
        if !ours_or_roots(&found) {
            return Err(distrust(way, &found, Fault::Link));
        }
        *links += 1;
        // Over more links than the kernel follows, nothing can be opened.
        if *links <= LINKS
            && let Ok(target) = fs::read_link(way)
        {
            walk(&way.parent().unwrap_or(way).join(target), links, check)?;
        }
    }
    Ok(())
}

/// The state directory itself, or one in it.
fn owned(dir: &Path, found: &Metadata) -> Result<(), Distrust> {
    // A file is refused where it is used, with a better word.
    if found.is_file() {
        return Ok(());
    }
    if found.uid() != euid() {
        return Err(distrust(dir, found, Fault::Owner));
    }
    // Links that stand in the place of one of our directories have every permission.
    if writable(found) {
        return Err(distrust(dir, found, Fault::Writable));
    }
    Ok(())
}

fn above(dir: &Path, found: &Metadata) -> Result<(), Distrust> {
    if !ours_or_roots(found) {
        return Err(distrust(dir, found, Fault::OwnerAbove));
    }
    if writable(found) && found.mode() & STICKY == 0 {
        return Err(distrust(dir, found, Fault::WritableAbove));
    }
    Ok(())
}

fn distrust(place: &Path, found: &Metadata, fault: Fault) -> Distrust {
    Distrust { place: place.to_owned(), owner: found.uid(), mode: found.mode() & 0o7777, fault }
}

fn ours_or_roots(found: &Metadata) -> bool {
    let owner = found.uid();
    owner == euid() || owner == 0 || (owner == UNMAPPED && in_user_namespace())
}

/// Whether anybody but the owner may write it.
fn writable(found: &Metadata) -> bool {
    let mode = found.mode();
    !found.is_symlink() && (mode & OTHERS != 0 || (mode & GROUP != 0 && !is_own_group(found.gid())))
}

/// Whether a group is the one that many systems make for each user, with the same number and nobody else in it: there a
/// directory that its group may write is nothing unusual.
fn is_own_group(group: u32) -> bool {
    let own = rustix::process::getegid().as_raw() == group && euid() == group;
    own && fs::read_to_string("/etc/group").is_ok_and(|groups| {
        groups.lines().all(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, id, members] = fields[..] else { return true };
            id.parse() != Ok(group) || members.split(',').all(|member| member.is_empty() || member == name)
        })
    })
}

/// Whether owners may be users that this process has no number for, such as the host's root in a container without root.
fn in_user_namespace() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| {
        let first: Vec<&str> = map.split_whitespace().take(3).collect();
        first != ["0", "0", "4294967295"]
    })
}

fn euid() -> u32 {
    rustix::process::geteuid().as_raw()
}
