//! Where the files of a tar archive are in it.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use tar::{Archive, EntryType};

use crate::errors::{Error, Result};
use crate::limits::Limits;
use crate::unpack::Bounded;

/// How much the headers of one entry may take, in bytes.
const HEADERS: u64 = 64 << 10;
/// How many files more than layers an archive may have: three for each layer in old archives of `docker save`.
const OTHERS: usize = 1000;

/// The files of an archive, by name.
pub(super) struct Files(HashMap<PathBuf, Place>);

enum Place {
    /// The position and the size.
    File(u64, u64),
    /// The name of another file: `docker save` writes a layer that two images share only once.
    Link(PathBuf),
}

impl Files {
    /// Returns the position and the size of a file.
    pub(super) fn find(&self, name: &str) -> Option<(u64, u64)> {
        let mut name = normalize(Path::new(name));
        for _ in 0..4 {
            match self.0.get(&name)? {
                Place::File(position, size) => return Some((*position, *size)),
                Place::Link(target) => name = target.clone(),
            }
        }
        None
    }
}

/// Finds the files of an archive without reading their content.
pub(super) fn list_files(file: &File, limits: &Limits) -> Result<Files> {
    let list = || -> io::Result<Files> {
        let mut start = [0; 6];
        let mut reader = file.try_clone()?;
        let length = reader.read(&mut start)?;
        if matches!(
            &start[..length],
            [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | b"\xfd7zXZ\0" | [b'B', b'Z', b'h', ..]
        ) {
            return Err(io::Error::other("it is compressed: decompress it first, for example with `gunzip`"));
        }
        reader.seek(SeekFrom::Start(0))?;
        let allowance = Rc::new(Cell::new(HEADERS));
        let mut archive = Archive::new(Bounded { inner: reader, allowance: Rc::clone(&allowance) });
        let mut entries = archive.entries_with_seek()?;
        let mut files = HashMap::new();
        loop {
            allowance.set(HEADERS);
            let Some(entry) = entries.next() else { return Ok(Files(files)) };
            let entry = entry?;
            let path = normalize(&entry.path()?);
            let place = match entry.header().entry_type() {
                EntryType::Regular => Place::File(entry.raw_file_position(), entry.size()),
                EntryType::Link | EntryType::Symlink => {
                    let target = entry.link_name()?.unwrap_or_default();
                    let above = path.parent().filter(|_| entry.header().entry_type() == EntryType::Symlink);
                    Place::Link(normalize(&above.unwrap_or(Path::new("")).join(target)))
                }
                _ => continue,
            };
            files.insert(path, place);
            if files.len() > limits.layers * 4 + OTHERS {
                return Err(io::Error::other("it has too many files for an archive of images"));
            }
        }
    };
    list().map_err(|error| Error::refused(format!("the file is not a readable tar archive: {error}")))
}

/// Resolves `.` and `..` in the name of a file, which is only compared with others.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => normal.push(part),
            Component::ParentDir => {
                normal.pop();
            }
            _ => {}
        }
    }
    normal
}
