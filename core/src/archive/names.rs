//! What the names of an archive must be, so that all of its entries can be created. Nothing else decides it: archives of other
//! programs, imported snapshots and what is unpacked are checked here.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use koze_protocol::tar::{Entry, MAX_ENTRIES, What};
use sha2::{Digest as _, Sha256};

use super::{entry_error, truncate_name};
use crate::error::{Code, Error, Result};

/// The maximum number of directories above an entry, as in a guest.
pub(super) const MAX_DEPTH: usize = 400;
/// The longest name in a directory, and the longest target of a link, as on Linux, in bytes.
const MAX_PART: usize = 255;
const MAX_TARGET: usize = 4095;

/// The names of an archive so far.
#[derive(Default)]
pub(crate) struct Names {
    /// By their hashes, because an archive may have many long ones.
    seen: HashMap<[u8; 16], Seen>,
    has_root: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Seen {
    /// A directory that the archive lists.
    Directory,
    /// A directory above an entry, which may be listed later.
    Implied,
    /// A file or link.
    Other,
}

impl Names {
    /// Checks that an entry can be created after the earlier ones.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] for a name that occurs twice, is below something else than a directory, or cannot be created;
    /// [`Code::TooLarge`] for too many entries.
    pub(crate) fn check_entry(&mut self, entry: &Entry) -> Result<()> {
        let Entry { name, what, .. } = entry;
        let refuse = |why: &str| Err(entry_error(name, why));
        if name.contains('\0') || name.split('/').any(|part| part.len() > MAX_PART) {
            return refuse("has a name that no file can have");
        }
        let above = name.matches('/').count();
        let depth = if *what == What::Directory { above + 1 } else { above };
        if depth > MAX_DEPTH {
            return refuse("is too many directories deep");
        }
        if let What::Link(target) = what
            && (target.is_empty() || target.contains('\0') || target.len() > MAX_TARGET)
        {
            return refuse("is a link without a valid target");
        }
        self.add_name(name, *what == What::Directory)
    }

    /// Checks that an entry has a name of its own, below directories.
    ///
    /// # Errors
    /// As [`check_entry`](Self::check_entry).
    pub(super) fn add_name(&mut self, name: &str, is_directory: bool) -> Result<()> {
        if name.is_empty() {
            // The directory itself is not counted.
            return if std::mem::replace(&mut self.has_root, true) {
                Err(entry_error(".", "occurs more than once"))
            } else {
                Ok(())
            };
        }
        for (at, _) in name.match_indices('/') {
            let above = &name[..at];
            if *self.seen.entry(hash_name(above)).or_insert(Seen::Implied) == Seen::Other {
                return Err(entry_error(
                    name,
                    &format!("is below `{}`, which is not a directory", truncate_name(above)),
                ));
            }
        }
        let now = if is_directory { Seen::Directory } else { Seen::Other };
        let slot = self.seen.entry(hash_name(name));
        if let Slot::Occupied(before) = &slot
            && !(is_directory && *before.get() == Seen::Implied)
        {
            return Err(entry_error(name, "occurs more than once"));
        }
        slot.insert_entry(now);
        if self.seen.len() as u64 > MAX_ENTRIES {
            let message = format!("the archive has more than {MAX_ENTRIES} files and directories");
            return Err(Error::new(Code::TooLarge, message));
        }
        Ok(())
    }
}

fn hash_name(name: &str) -> [u8; 16] {
    let mut hash = [0; 16];
    hash.copy_from_slice(&Sha256::digest(name)[..16]);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_file_system_creates_is_refused() {
        let long = "n".repeat(MAX_PART);
        let deep = vec!["d"; MAX_DEPTH + 1].join("/");
        let target = "t".repeat(MAX_TARGET);
        let (file, directory) = (What::File(0), What::Directory);
        let link = |target: &str| What::Link(target.to_owned());
        let of = |name: &str, what: What| Entry { name: name.to_owned(), what, mode: 0o644, mtime: 0 };
        for entry in [
            of("", directory.clone()),
            of(&long, file.clone()),
            of(&deep, file.clone()),
            of(&deep[2..], directory.clone()),
            of("l", link(&target)),
            of("l", link("/etc/passwd")),
        ] {
            Names::default().check_entry(&entry).unwrap();
        }
        for (entry, message) in [
            (of("a\0b", file.clone()), "has a name that no file can have"),
            (of(&format!("d/{long}x"), file.clone()), "has a name that no file can have"),
            (of(&format!("{deep}/d"), file.clone()), "is too many directories deep"),
            (of(&deep, directory), "is too many directories deep"),
            (of("l", link("")), "is a link without a valid target"),
            (of("l", link("a\0")), "is a link without a valid target"),
            (of("l", link(&format!("{target}t"))), "is a link without a valid target"),
        ] {
            let error = Names::default().check_entry(&entry).unwrap_err();
            assert!(error.code == Code::InvalidInput && error.message.contains(message), "{error}");
        }
    }

    #[test]
    fn the_number_of_entries_is_limited() {
        let mut names = Names::default();
        names.add_name("", true).unwrap();
        // Without the time that so many hashes take.
        names.seen.extend((1..MAX_ENTRIES).map(|number| (u128::from(number).to_le_bytes(), Seen::Other)));
        names.add_name("last", false).unwrap();
        assert_eq!(names.add_name("x", false).unwrap_err().code, Code::TooLarge);
    }
}
