//! The part of a file that an interrupted copy has received. It is next to the target, under a name that says which version of
//! which file it is of: another version has another name, so that the two are never mixed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek as _, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::sides::{STAGING, parent};

/// What the name of a partial file ends with.
const SUFFIX: &str = ".part";
/// A copy goes on at a multiple of this, in bytes. A smaller file is copied again.
pub(super) const STEP: u64 = 16 << 20;

/// Whether what is received must be on the disk before more is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// A copy may go on after a crash of the machine.
    Synced,
    /// The version names the boot, so that a copy does not go on after a crash of the machine.
    WithinBoot,
}

/// A file that is being received. Dropping it keeps what it has, for the next copy.
#[derive(Debug)]
pub(super) struct Partial {
    file: File,
    path: PathBuf,
    position: u64,
    durability: Durability,
}

impl Partial {
    /// Opens the partial file of a version for a target, or creates it with a mode, as far as the user's mask permits. Removes
    /// those of other versions. Returns `None` if another copy uses it, or if it is not this user's.
    ///
    /// # Errors
    /// If the directory of the target cannot be written.
    pub(super) fn open(
        target: &Path,
        version: &str,
        mode: u32,
        durability: Durability,
    ) -> io::Result<Option<Self>> {
        let directory = parent(target);
        let family = format!("{STAGING}{}-", digest(target.as_os_str().as_bytes()));
        let name = format!("{family}{}{SUFFIX}", digest(version.as_bytes()));
        remove_others(directory, &family, &name);
        let path = directory.join(name);
        let mut options = OpenOptions::new();
        // A link of somebody else must not lead to another file.
        options.write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let file = match options.clone().create_new(true).mode(mode & 0o777).open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match options.open(&path) {
                Ok(file) => file,
                Err(_) => return Ok(None),
            },
            created => created?,
        };
        if file.try_lock().is_err() || !is_own(&file, &path)? {
            return Ok(None);
        }
        // What follows the last step may not be on the disk.
        let position = file.metadata()?.len().saturating_sub(1) / STEP * STEP;
        file.set_len(position)?;
        let mut partial = Partial { file, path, position, durability };
        partial.file.seek(SeekFrom::Start(position))?;
        Ok(Some(partial))
    }

    /// Returns how many bytes it has.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the file, to write to at its position.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Puts the file at its target. `mode` is that of the file that it replaces, if there is one.
    ///
    /// # Errors
    /// If the file cannot be renamed.
    pub(super) fn finish(self, target: &Path, mode: Option<u32>) -> io::Result<()> {
        if let Some(mode) = mode {
            self.file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        fs::rename(&self.path, target)
    }

    /// Removes the file: the version is gone, or what was received is a mixture.
    pub(super) fn discard(self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = usize::try_from(STEP - self.position % STEP).unwrap_or(usize::MAX);
        let count = self.file.write(&bytes[..bytes.len().min(left)])?;
        self.position += count as u64;
        if self.durability == Durability::Synced && self.position.is_multiple_of(STEP) {
            self.file.sync_data()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns whether an open file is this user's, has no other name, and is still at its path: a copy that has just finished has
/// renamed it.
fn is_own(file: &File, path: &Path) -> io::Result<bool> {
    let about = file.metadata()?;
    let is_there = fs::symlink_metadata(path)
        .is_ok_and(|there| (there.dev(), there.ino()) == (about.dev(), about.ino()));
    Ok(is_there
        && about.is_file()
        && about.nlink() == 1
        && about.uid() == rustix::process::geteuid().as_raw())
}

/// Removes the partial files of other versions that no copy uses.
fn remove_others(directory: &Path, family: &str, name: &str) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let other = entry.file_name();
        let is_other = other
            .to_str()
            .is_some_and(|other| other.starts_with(family) && other.ends_with(SUFFIX) && other != name);
        if is_other && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns half of a hash, for a name.
fn digest(bytes: &[u8]) -> String {
    let mut half = [0; 16];
    half.copy_from_slice(&Sha256::digest(bytes)[..16]);
    format!("{:032x}", u128::from_be_bytes(half))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const STEP: usize = 16 << 20;

    fn open(target: &Path, version: &str) -> Option<Partial> {
        Partial::open(target, version, 0o640, Durability::Synced).unwrap()
    }

    /// Repeats an attempt: a process that another test is just starting holds the locks of this one for a moment.
    fn eventually<T>(attempt: impl Fn() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            if let Some(done) = attempt() {
                return done;
            }
            assert!(Instant::now() < deadline, "not in time");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_copy_goes_on_at_a_step() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        let bytes: Vec<u8> = (0..=250).cycle().take(2 * STEP + 5).collect();
        let mut partial = open(&target, "1").unwrap();
        assert_eq!(partial.position(), 0);
        partial.write_all(&bytes[..STEP + 7]).unwrap();
        assert!(open(&target, "1").is_none(), "another copy uses it");
        drop(partial);
        let mut partial = eventually(|| open(&target, "1"));
        assert_eq!(partial.position(), super::STEP);
        partial.write_all(&bytes[STEP..2 * STEP]).unwrap();
        drop(partial);
        // The end of a step may not be on the disk.
        let mut partial = eventually(|| open(&target, "1"));
        assert_eq!(partial.position(), super::STEP);
        partial.write_all(&bytes[STEP..]).unwrap();
        assert!(!target.exists());
        partial.finish(&target, Some(0o600)).unwrap();
        assert!(fs::read(&target).unwrap() == bytes);
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(directory.path()), ["target"]);
    }

    #[test]
    fn another_version_starts_over() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        let mut partial = open(&target, "1").unwrap();
        partial.write_all(&vec![1; STEP + 1]).unwrap();
        drop(partial);
        let other = open(&directory.path().join("other"), "2").unwrap();
        let partial = open(&target, "2").unwrap();
        assert_eq!(partial.position(), 0);
        // The first version is removed. This one is in use.
        eventually(|| {
            assert!(open(&target, "2").is_none());
            (names(directory.path()).len() == 2).then_some(())
        });
        partial.discard();
        other.discard();
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn files_and_links_of_others_are_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        drop(open(&target, "1").unwrap());
        let path = directory.path().join(names(directory.path()).pop().unwrap());
        fs::remove_file(&path).unwrap();
        fs::write(directory.path().join("precious"), "content").unwrap();
        std::os::unix::fs::symlink("precious", &path).unwrap();
        assert!(open(&target, "1").is_none());
        fs::remove_file(&path).unwrap();
        fs::hard_link(directory.path().join("precious"), &path).unwrap();
        assert!(open(&target, "1").is_none());
        assert_eq!(fs::read_to_string(directory.path().join("precious")).unwrap(), "content");
    }
}
