//! Unpacks archives of sandboxes, which are not trusted, into directories of this machine.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Unpacks an archive. An entry that would be outside of the directory is an error.
pub(super) fn unpack<R: Read>(archive: &mut tar::Archive<R>, into: &Path) -> io::Result<()> {
    let unpack_entry = |mut entry: tar::Entry<'_, R>| {
        if entry.unpack_in(into)? {
            return Ok(());
        }
        let name = entry.path_bytes().escape_ascii().to_string();
        Err(io::Error::new(
            ErrorKind::InvalidData,
            format!("the archive has an entry with the name `{name}`"),
        ))
    };
    let mut directories = Vec::new();
    for entry in archive.entries()? {
        let entry = entry?;
        if entry.header().entry_type().is_dir() {
            directories.push(entry);
        } else {
            unpack_entry(entry)?;
        }
    }
    // Last, because one may be read-only, and the deepest first.
    directories.sort_by(|a, b| b.path_bytes().cmp(&a.path_bytes()));
    directories.into_iter().try_for_each(unpack_entry)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn entry(archive: &mut tar::Builder<Vec<u8>>, name: &str, kind: tar::EntryType, mode: u32) {
        let mut header = tar::Header::new_gnu();
        // The methods refuse names that lead up.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(0);
        header.set_cksum();
        archive.append(&header, io::empty()).unwrap();
    }

    fn unpack_into(directory: &Path, entries: &[(&str, tar::EntryType, u32)]) -> io::Result<()> {
        let mut archive = tar::Builder::new(Vec::new());
        for &(name, kind, mode) in entries {
            entry(&mut archive, name, kind, mode);
        }
        let bytes = archive.into_inner().unwrap();
        unpack(&mut tar::Archive::new(bytes.as_slice()), directory)
    }

    #[test]
    fn entries_outside_of_the_directory_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let error = unpack_into(&inner, &[("a/../../outside", tar::EntryType::Regular, 0o644)]).unwrap_err();
        assert!(error.to_string().contains("`a/../../outside`"), "{error}");
        assert!(!directory.path().join("outside").exists());
    }

    #[test]
    #[cfg(unix)]
    fn read_only_directories_get_their_files() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let (kind, file) = (tar::EntryType::Directory, tar::EntryType::Regular);
        let entries = [("a/", kind, 0o555), ("a/b/", kind, 0o555), ("a/b/c", file, 0o640)];
        unpack_into(directory.path(), &entries).unwrap();
        let mode =
            |name: &str| fs::metadata(directory.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("a"), mode("a/b"), mode("a/b/c")), (0o555, 0o555, 0o640));
        // So that it can be removed.
        for name in ["a", "a/b"] {
            fs::set_permissions(directory.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}
