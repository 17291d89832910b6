//! Assigns a host user to each sandbox. If koze runs as root, each sandbox has its own unused host user, so that a
//! process that leaves its namespaces can access neither other sandboxes nor the files of other users.
//!
//! The user is chosen at random when the sandbox is created, and recorded in its directory. Claims in `/run` keep two
//! sandboxes of this machine from having the same one, even if they are in different state directories.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Gid, Mode, OFlags, Uid};

use crate::weakness::{Weakness, Weaknesses};

/// The ranges of user IDs to choose from, in order of preference. The first is beyond those assigned by useradd,
/// systemd, container engines and network directory services. It is missing in a container with about 65,000 IDs.
const WINDOWS: [(u64, u64); 2] = [(2_010_000_000, 2_109_999_999), (10_000, 59_999)];
/// The user that earlier versions used for all sandboxes.
const FORMER: u32 = 100_000;
/// The number of attempts to find a user.
const MAX_ATTEMPTS: usize = 1000;
/// The maximum depth when changing the owner of files.
const MAX_DEPTH: usize = 3000;
const CLAIMS: &str = "/run/koze/users";

/// Returns the user and group that own a sandbox's files on the host, or `None` for the current user. Files of a
/// previous owner are given to the new one. Claim the sandbox first.
pub(crate) fn settle_owner(directory: &Path, weak: &Weaknesses) -> io::Result<Option<u32>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    if weak.has(&Weakness::SharedUser) {
        return Ok(Some(FORMER));
    }
    let record = directory.join("owner");
    let recorded = fs::read_to_string(&record).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let users = Users::read()?;
    if let Some(recorded) = recorded.filter(|user| users.has(u64::from(*user)))
        && (users.windows().is_empty() || claim_user(recorded, directory))
    {
        return Ok(Some(recorded));
    }
    let chosen = choose_user(users, directory)?;
    let files = directory.join("files");
    let former = fs::symlink_metadata(files.join("home")).map(|home| home.uid());
    let settled = match former {
        Ok(former) if former != chosen => match change_owner(&files, chosen) {
            Ok(()) => chosen,
            // Root owns directories that were created ahead. A sandbox is never root.
            Err(error) if former == 0 => return Err(error),
            Err(_) => {
                // All or nothing: on failure it keeps its previous owner.
                change_owner(&files, former)?;
                former
            }
        },
        _ => chosen,
    };
    fs::write(record, settled.to_string())?;
    Ok(Some(settled))
}

/// Releases the user of a destroyed sandbox.
pub(crate) fn release_user(directory: &Path) {
    let Ok(user) = fs::read_to_string(directory.join("owner")) else { return };
    let claim = Path::new(CLAIMS).join(user.trim());
    if fs::read_link(&claim).is_ok_and(|holder| holder == directory) {
        let _ = fs::remove_file(claim);
    }
}

/// Removes the claims of sandboxes that no longer exist.
pub(crate) fn remove_stale_claims() {
    let Some(_lock) = lock_claims() else { return };
    for claim in fs::read_dir(CLAIMS).into_iter().flatten().flatten() {
        if fs::read_link(claim.path()).is_ok_and(|holder| is_gone(&holder)) {
            let _ = fs::remove_file(claim.path());
        }
    }
}

/// Returns whether root's sandboxes share one user, because this user namespace has too few IDs, as in some containers.
pub(crate) fn has_shared_user() -> bool {
    rustix::process::geteuid().is_root() && Users::read().is_ok_and(|users| users.windows().is_empty())
}

fn choose_user(users: &Users, directory: &Path) -> io::Result<u32> {
    let windows = users.windows();
    let Some((first, last)) = windows.first().copied() else { return users.last() };
    for _ in 0..MAX_ATTEMPTS {
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let user = first + u64::from_ne_bytes(random) % (last - first + 1);
        let Ok(number) = u32::try_from(user) else { continue };
        if users.has(user) && !users.taken(user) && claim_user(number, directory) {
            return Ok(number);
        }
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "this machine has no free user ID for the sandbox"))
}

/// Claims this user for the sandbox in the directory. Returns false if another sandbox has claimed it.
fn claim_user(user: u32, directory: &Path) -> bool {
    // Without a directory for claims, a collision is unlikely enough.
    let Some(_lock) = lock_claims() else { return true };
    let claim = Path::new(CLAIMS).join(user.to_string());
    match fs::read_link(&claim) {
        Ok(holder) if holder == directory => return true,
        Ok(holder) if !is_gone(&holder) => return false,
        Ok(_) => drop(fs::remove_file(&claim)),
        Err(_) => {}
    }
    symlink(directory, claim).map_or_else(|error| error.kind() != io::ErrorKind::AlreadyExists, |()| true)
}

fn is_gone(holder: &Path) -> bool {
    fs::symlink_metadata(holder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// A lock that is held while claims are read or written.
fn lock_claims() -> Option<fs::File> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(CLAIMS).ok()?;
    let directory = fs::File::open(CLAIMS).ok()?;
    rustix::fs::flock(&directory, FlockOperation::LockExclusive).ok()?;
    Some(directory)
}

/// Changes the owner of everything in a directory, without following links.
fn change_owner(directory: &Path, user: u32) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let opened = rustix::fs::open(directory, flags, Mode::empty())?;
    give_all(&opened, Uid::from_raw(user), Gid::from_raw(user), flags, 0)
}

fn give_all(directory: &OwnedFd, user: Uid, group: Gid, flags: OFlags, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let about = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(about.st_mode) == FileType::Directory {
            let below = rustix::fs::openat(directory, name, flags, Mode::empty())?;
            give_all(&below, user, group, flags, depth + 1)?;
        }
        if about.st_uid != user.as_raw() || about.st_gid != group.as_raw() {
            rustix::fs::chownat(directory, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    Ok(())
}

/// The available IDs, and those in use.
struct Users {
    /// Ranges of IDs that are both user and group IDs in this user namespace.
    mapped: Vec<(u64, u64)>,
    taken: Vec<(u64, u64)>,
}

impl Users {
    /// The IDs of this machine, read once.
    fn read() -> io::Result<&'static Self> {
        static USERS: OnceLock<Users> = OnceLock::new();
        if let Some(users) = USERS.get() {
            return Ok(users);
        }
        let (users, groups) =
            (fs::read_to_string("/proc/self/uid_map")?, fs::read_to_string("/proc/self/gid_map")?);
        let text = |file| fs::read_to_string(PathBuf::from("/etc").join(file)).unwrap_or_default();
        let (named, subordinate) = ([text("passwd"), text("group")], [text("subuid"), text("subgid")]);
        let new = || {
            Users::new(
                [&users, &groups],
                named.each_ref().map(|text| &**text),
                subordinate.each_ref().map(|text| &**text),
            )
        };
        Ok(USERS.get_or_init(new))
    }

    fn new(maps: [&str; 2], named: [&str; 2], subordinate: [&str; 2]) -> Self {
        let mapped = intersect_ranges(&ranges_of_map(maps[0]), &ranges_of_map(maps[1]));
        let number = |line: &str| line.split(':').nth(2)?.parse::<u64>().ok();
        let named = named.into_iter().flat_map(str::lines).filter_map(number).map(|one| (one, one));
        let range = |line: &str| {
            let mut numbers = line.split(':').skip(1).map(str::parse::<u64>);
            let (first, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
            (count > 0).then(|| (first, first.saturating_add(count - 1)))
        };
        let subordinate = subordinate.into_iter().flat_map(str::lines).filter_map(range);
        Users { mapped, taken: named.chain(subordinate).collect() }
    }

    fn has(&self, user: u64) -> bool {
        contains_user(&self.mapped, user)
    }

    fn taken(&self, user: u64) -> bool {
        contains_user(&self.taken, user)
    }

    /// Returns the parts of the ranges that exist in this user namespace and are large enough.
    fn windows(&self) -> Vec<(u64, u64)> {
        let mut all = intersect_ranges(&WINDOWS, &self.mapped);
        all.retain(|(first, last)| last - first >= 999);
        all
    }

    /// Returns the last ID, if there is no choice.
    fn last(&self) -> io::Result<u32> {
        let last = self.mapped.iter().map(|(_, last)| *last).max().filter(|last| *last > 0);
        last.and_then(|last| u32::try_from(last).ok()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::Unsupported, "root is the only user here: run koze as another user")
        })
    }
}

fn contains_user(ranges: &[(u64, u64)], user: u64) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&user))
}

fn ranges_of_map(map: &str) -> Vec<(u64, u64)> {
    let range = |line: &str| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (first, _, count) = (numbers.next()?.ok()?, numbers.next()?, numbers.next()?.ok()?);
        (count > 0).then(|| (first, first + count - 1))
    };
    map.lines().filter_map(range).collect()
}

/// Returns the intersection, in the order of the first.
fn intersect_ranges(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let cut = |a: &(u64, u64), b: &(u64, u64)| {
        let (first, last) = (a.0.max(b.0), a.1.min(b.1));
        (first <= last).then_some((first, last))
    };
    one.iter().flat_map(|a| other.iter().filter_map(move |b| cut(a, b))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(map: &str) -> Users {
        let named = ["root:x:0:0::/:/bin/sh\nmine:x:2010000007:1:::\n", "staff:x:50:\n"];
        Users::new([map, map], named, ["one:100000:65536\n", "two:2050000000:65536\n"])
    }

    #[test]
    fn each_sandbox_has_its_own_user() {
        let host = users("         0          0 4294967295\n");
        assert_eq!(host.windows()[0], WINDOWS[0]);
        for taken in [0, 50, 100_000, 165_535, 2_010_000_007, 2_050_000_001] {
            assert!(host.taken(taken), "{taken}");
        }
        assert!(!host.taken(2_010_000_008));
        assert!(host.has(2_010_000_008));
        // A container with the usual number of IDs.
        let container = users("0 1000 1\n1 100000 65535\n");
        assert_eq!(container.windows(), [WINDOWS[1]]);
    }

    #[test]
    fn the_user_on_the_host_is_never_root() {
        let few = users("0 1000 1\n1 100000 500\n");
        assert!(few.windows().is_empty());
        assert_eq!(few.last().unwrap(), 500);
        assert!(users("0 0 1\n").last().is_err());
        assert!(users("").last().is_err());
    }
}
