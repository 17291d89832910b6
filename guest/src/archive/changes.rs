//! Finds the files of a directory that have changed since it was last archived. The kernel updates the change time (`ctime`) with every
//! write, and no program can set it. Writes through a shared mapping are an exception, so mapped files always count as changed.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

/// How old the last change must be for a [`Mark`]: two changes within one tick of the kernel's clock have the same time, and no
/// kernel ticks slower than every ten milliseconds.
const SETTLED: Duration = Duration::from_millis(50);

/// The state of a file according to the kernel. If the mark of a file is equal later, its content has not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The number of its inode.
    inode: u64,
    /// The time of its last change: seconds and nanoseconds since 1970.
    changed: (i64, u64),
    /// Its size in bytes.
    size: u64,
}

impl Mark {
    fn new(stat: &Stat) -> Self {
        Mark {
            inode: stat.st_ino,
            changed: (stat.st_ctime, stat.st_ctime_nsec),
            size: u64::try_from(stat.st_size).unwrap_or_default(),
        }
    }

    /// Returns the number of the inode.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inode
    }
}

/// A file that was archived before: a line of the list in the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Its path below the archived directory.
    pub path: String,
    /// Its mark at that time, or `None` if it is known to be unchanged.
    pub mark: Option<Mark>,
}

/// The known files, and what is needed to compare them.
#[derive(Debug)]
pub(super) struct Changes {
    known: HashMap<String, Option<Mark>>,
    /// Returns the inodes that programs have mapped.
    look: fn() -> Option<HashSet<u64>>,
    /// Those that were mapped at the beginning.
    mapped: Option<HashSet<u64>>,
    /// The latest change time at which a mark counts.
    settled: Duration,
}

impl Changes {
    /// Reads the list of known files.
    pub(super) fn new(known: File) -> io::Result<Self> {
        Self::with(known, find_mapped)
    }

    pub(super) fn with(mut known: File, look: fn() -> Option<HashSet<u64>>) -> io::Result<Self> {
        known.seek(SeekFrom::Start(0))?;
        let mut files = HashMap::new();
        for line in BufReader::new(known).lines() {
            let Known { path, mark } = serde_json::from_str(&line?)?;
            files.insert(path, mark);
        }
        let settled =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(SETTLED);
        Ok(Changes { known: files, look, mapped: look(), settled })
    }

    /// Returns whether a file is unchanged, and its mark, unless the file may change without a new mark.
    pub(super) fn look_at(&self, path: &str, stat: &Stat) -> (bool, Option<Mark>) {
        let mark = Mark::new(stat);
        match self.known.get(path) {
            // It has no mark, because several sandboxes share the file.
            Some(None) => (true, None),
            Some(Some(known)) if *known == mark && !self.is_mapped(mark.inode) => (true, Some(mark)),
            _ => (false, self.is_settled(&mark).then_some(mark)),
        }
    }

    /// Returns the inodes that were mapped at any time, whose marks do not count. `None` if a program does not show its mappings.
    pub(super) fn mapped(&mut self) -> Option<Vec<u64>> {
        let both = self.mapped.take().zip((self.look)());
        both.map(|(before, after)| before.union(&after).copied().collect())
    }

    fn is_mapped(&self, inode: u64) -> bool {
        self.mapped.as_ref().is_none_or(|mapped| mapped.contains(&inode))
    }

    fn is_settled(&self, mark: &Mark) -> bool {
        let (seconds, nanoseconds) = mark.changed;
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or_default();
        u64::try_from(seconds).is_ok_and(|seconds| Duration::new(seconds, nanoseconds) <= self.settled)
    }
}

/// Returns the inodes of the files that programs can write through shared mappings. `None` if a program does not show its mappings.
fn find_mapped() -> Option<HashSet<u64>> {
    let mut inodes = HashSet::new();
    for process in fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path()) {
        let name = process.file_name().and_then(|name| name.to_str());
        if name.is_none_or(|name| name.parse::<u32>().is_err()) {
            continue;
        }
        match fs::read(process.join("maps")) {
            // Paths need not be UTF-8.
            Ok(maps) => {
                inodes.extend(String::from_utf8_lossy(&maps).lines().filter_map(parse_shared_mapping));
            }
            // The process has ended.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {}
            // The guest and its copies do not show their mappings, and map no files.
            Err(_) if fs::read(process.join("comm")).is_ok_and(|comm| comm == b"koze-guest\n") => {}
            Err(_) => return None,
        }
    }
    Some(inodes)
}

/// Returns the inode of a mapping that is shared and may be written: `7f..-7f.. rw-s 00000000 08:01 1234 /path`.
fn parse_shared_mapping(line: &str) -> Option<u64> {
    let mut parts = line.split_ascii_whitespace();
    let permissions = parts.nth(1)?.as_bytes();
    let inode = parts.nth(2)?.parse().ok()?;
    // A read-only mapping may be made writable later, if the file was opened for that.
    (permissions.get(3) == Some(&b's') && inode != 0).then_some(inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_mappings_are_found() {
        let line =
            |permissions: &str| format!("7f00-7f01 {permissions} 00000000 fe:01 4711      /workspace/a b\n");
        assert_eq!(parse_shared_mapping(&line("rw-s")), Some(4711));
        assert_eq!(parse_shared_mapping(&line("r--s")), Some(4711));
        assert_eq!(parse_shared_mapping(&line("rw-p")), None);
        assert_eq!(parse_shared_mapping("7f00-7f01 rw-s 00000000 00:00 0"), None);
    }
}
