//! The tar format of an archive: what `tar` reads and writes, with long names as GNU extensions.

use serde::{Deserialize, Serialize};
use tar::{EntryType, Header};

/// The maximum number of files and directories in an archive.
pub const MAX_ENTRIES: u64 = 1_000_000;
/// The size of a block.
const BLOCK: usize = 512;
/// The largest file, in bytes. No disk is larger.
const MAX_FILE: u64 = 1 << 53;
/// The permission bits that an archive can have. Those that change the user or group of a program, and the sticky bit, are left out:
/// the files get another owner.
pub const MODE: u32 = 0o777;
/// The longest name or link target.
const MAX_NAME: u64 = 16 << 10;
/// The name of the entries that hold a long name or link target.
const LONG: &str = "././@LongLink";

/// What an archive contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Contents {
    /// The number of files, directories and symbolic links below the archived directory.
    pub entries: u64,
    /// The total size of the files in bytes.
    pub bytes: u64,
    /// The number of sockets, pipes and devices, which are left out.
    #[serde(default)]
    pub skipped: u64,
}

/// What is wrong with an archive that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged(pub &'static str);

type Result<T> = std::result::Result<T, Damaged>;

/// An entry of an archive. Names are relative to the archived directory, whose own name is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub what: What,
    /// Its permission bits, of which [`MODE`] are kept.
    pub mode: u32,
    /// In seconds since 1970.
    pub mtime: u64,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A directory.
    Directory,
    /// A symbolic link with its target.
    Link(String),
    /// A file with this size.
    File(u64),
}

/// Appends the header of an entry. The content of a file and its [`padding`] follow.
pub fn write_header(entry: &Entry, archive: &mut Vec<u8>) {
    let mut header = Header::new_gnu();
    let (kind, size) = match &entry.what {
        What::Directory => (EntryType::Directory, 0),
        What::Link(_) => (EntryType::Symlink, 0),
        What::File(size) => (EntryType::Regular, *size),
    };
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(entry.mode & MODE);
    header.set_mtime(entry.mtime);
    header.set_uid(0);
    header.set_gid(0);
    let name = match &entry.what {
        What::Directory if entry.name.is_empty() => "./".to_owned(),
        What::Directory => format!("./{}/", entry.name),
        _ => format!("./{}", entry.name),
    };
    if let What::Link(target) = &entry.what
        && header.set_link_name_literal(target).is_err()
    {
        write_long(EntryType::GNULongLink, target, archive);
    }
    let field = &mut header.as_old_mut().name;
    if name.len() > field.len() {
        write_long(EntryType::GNULongName, &name, archive);
    }
    // Of a long name, what fits, for readers that do not know the extension.
    let length = name.len().min(field.len());
    field[..length].copy_from_slice(&name.as_bytes()[..length]);
    header.set_cksum();
    archive.extend(header.as_bytes());
}

fn write_long(kind: EntryType, text: &str, archive: &mut Vec<u8>) {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..LONG.len()].copy_from_slice(LONG.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    let size = text.len() as u64 + 1;
    header.set_size(size);
    header.set_cksum();
    archive.extend(header.as_bytes());
    archive.extend(text.as_bytes());
    archive.push(0);
    archive.extend(padding(size));
}

/// Returns the zeros that follow content of this size.
pub fn padding(size: u64) -> Vec<u8> {
    vec![0; usize::try_from(size.next_multiple_of(BLOCK as u64) - size).unwrap_or(0)]
}

/// Returns the end of an archive.
pub fn end() -> Vec<u8> {
    vec![0; 2 * BLOCK]
}

/// A part of an archive.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
    /// An entry.
    Entry(Entry),
    /// Content of the last file.
    Content(Vec<u8>),
}

/// Reads an archive that arrives in pieces.
#[derive(Debug, Default)]
pub struct Reader {
    collected: Vec<u8>,
    long_name: Option<String>,
    long_link: Option<String>,
    /// What is left of a file's content and of the padding after it.
    content: u64,
    padding: u64,
    ended: bool,
}

impl Reader {
    /// Adds bytes of the archive.
    pub fn add(&mut self, bytes: &[u8]) {
        self.collected.extend_from_slice(bytes);
    }

    /// Returns the next part, if it has arrived.
    ///
    /// # Errors
    /// If the archive has what koze does not write.
    pub fn part(&mut self) -> Result<Option<Part>> {
        loop {
            if self.ended || self.collected.is_empty() {
                return Ok(None);
            }
            if self.content > 0 {
                let content = self.take(self.content);
                self.content -= content.len() as u64;
                return Ok(Some(Part::Content(content)));
            }
            if self.padding > 0 {
                self.padding -= self.take(self.padding).len() as u64;
                continue;
            }
            let Some(block) = self.collected.get(..BLOCK) else { return Ok(None) };
            if block.iter().all(|byte| *byte == 0) {
                self.ended = true;
                return Ok(None);
            }
            let header = Header::from_byte_slice(block).clone();
            let size = header.entry_size().map_err(|_| Damaged("an entry has no size"))?;
            if size > MAX_FILE {
                return Err(Damaged("an entry is too large"));
            }
            let kind = header.entry_type();
            if matches!(kind, EntryType::GNULongName | EntryType::GNULongLink) {
                let Some(text) = self.long(size)? else { return Ok(None) };
                let which =
                    if kind == EntryType::GNULongName { &mut self.long_name } else { &mut self.long_link };
                *which = Some(text);
                continue;
            }
            self.collected.drain(..BLOCK);
            let entry = self.entry(&header, size)?;
            if let What::File(size) = entry.what {
                self.content = size;
                self.padding = size.next_multiple_of(BLOCK as u64) - size;
            }
            return Ok(Some(Part::Entry(entry)));
        }
    }

    /// Checks that the archive has ended.
    ///
    /// # Errors
    /// If not.
    pub fn finish(&self) -> Result<()> {
        if self.ended { Ok(()) } else { Err(Damaged("its end is missing")) }
    }

    fn take(&mut self, most: u64) -> Vec<u8> {
        let length = usize::try_from(most).unwrap_or(usize::MAX).min(self.collected.len());
        let rest = self.collected.split_off(length);
        std::mem::replace(&mut self.collected, rest)
    }

    /// Returns a long name with its header, if it has arrived.
    fn long(&mut self, size: u64) -> Result<Option<String>> {
        if size > MAX_NAME {
            return Err(Damaged("a name is too long"));
        }
        let length = usize::try_from(size).unwrap_or(0);
        let whole = BLOCK + length.next_multiple_of(BLOCK);
        let Some(bytes) = self.collected.get(BLOCK..whole) else { return Ok(None) };
        let name = text(bytes[..length].strip_suffix(&[0]).unwrap_or(&bytes[..length]))?;
        self.collected.drain(..whole);
        Ok(Some(name))
    }

    fn entry(&mut self, header: &Header, size: u64) -> Result<Entry> {
        let name = match self.long_name.take() {
            Some(name) => name,
            None => text(&header.path_bytes())?,
        };
        let link = self.long_link.take();
        let what = match header.entry_type() {
            EntryType::Directory => What::Directory,
            EntryType::Regular => What::File(size),
            EntryType::Symlink => What::Link(match link {
                Some(link) => link,
                None => text(&header.link_name_bytes().unwrap_or_default())?,
            }),
            _ => return Err(Damaged("it has an entry that is not a file, directory or symbolic link")),
        };
        let name = name.strip_prefix("./").ok_or(Damaged("a name does not start with `./`"))?;
        let name = name.strip_suffix('/').unwrap_or(name).to_owned();
        let is_root = name.is_empty() && what == What::Directory;
        if !is_root && name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(Damaged("a name leads outside of it"));
        }
        let mode = header.mode().map_err(|_| Damaged("an entry has no mode"))? & MODE;
        Ok(Entry { name, what, mode, mtime: header.mtime().unwrap_or_default() })
    }
}

fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Damaged("a name is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, what: What, mode: u32) -> Entry {
        Entry { name: name.to_owned(), what, mode, mtime: 1_700_000_000 }
    }

    fn read(bytes: &[u8], piece: usize) -> Result<Vec<Part>> {
        let (mut reader, mut parts) = (Reader::default(), Vec::new());
        for bytes in bytes.chunks(piece) {
            reader.add(bytes);
            while let Some(part) = reader.part()? {
                match (parts.last_mut(), part) {
                    (Some(Part::Content(content)), Part::Content(more)) => content.extend(more),
                    (_, part) => parts.push(part),
                }
            }
        }
        reader.finish().map(|()| parts)
    }

    #[test]
    fn entries_survive() {
        let long = ["日本/", &"ä".repeat(120)].concat();
        let target = "t".repeat(300);
        let list = [
            (entry("", What::Directory, 0o750), Vec::new()),
            (entry("empty", What::Directory, 0o777), Vec::new()),
            (entry("a b\n\"c\\", What::File(3), 0o755), b"abc".to_vec()),
            (entry("none", What::File(0), 0o600), Vec::new()),
            (entry(&long, What::File(1024), 0o644), vec![5; 1024]),
            (entry("link", What::Link("../outside".into()), 0o777), Vec::new()),
            (entry(&"l".repeat(99), What::Link(target), 0o777), Vec::new()),
            (entry(&"d".repeat(98), What::Directory, 0o755), Vec::new()),
        ];
        let (mut archive, mut expected) = (Vec::new(), Vec::new());
        for (entry, content) in list {
            write_header(&entry, &mut archive);
            archive.extend(&content);
            archive.extend(padding(content.len() as u64));
            expected.push(Part::Entry(entry));
            if !content.is_empty() {
                expected.push(Part::Content(content));
            }
        }
        archive.extend(end());
        for piece in [1, 512, 700, archive.len()] {
            assert_eq!(read(&archive, piece).unwrap(), expected, "{piece}");
        }
        for length in (0..archive.len() - 1024).step_by(100) {
            assert!(read(&archive[..length], 512).is_err(), "{length} bytes");
        }
        // The tar crate reads the same.
        let mut other = tar::Archive::new(&archive[..]);
        let names: Vec<Vec<u8>> =
            other.entries().unwrap().map(|entry| entry.unwrap().path_bytes().into_owned()).collect();
        assert_eq!(names.len(), 8);
        assert_eq!(names[4], format!("./{long}").into_bytes());
    }

    #[test]
    fn special_permission_bits_are_dropped() {
        for what in [What::File(0), What::Directory] {
            let mut archive = Vec::new();
            write_header(&entry("a", what.clone(), 0o7755), &mut archive);
            assert_eq!(Header::from_byte_slice(&archive).mode().unwrap(), 0o755, "for other programs");
            // As another program writes it.
            let mut header = Header::from_byte_slice(&archive).clone();
            header.set_mode(0o7755);
            header.set_cksum();
            let archive = [header.as_bytes().to_vec(), end()].concat();
            assert_eq!(read(&archive, 512).unwrap(), [Part::Entry(entry("a", what, 0o755))]);
        }
    }

    #[test]
    fn names_do_not_lead_outside() {
        for name in ["../a", "a/../b", "a//b", "/etc/passwd", ".", ""] {
            let mut archive = Vec::new();
            write_header(&entry(name, What::File(0), 0o644), &mut archive);
            archive.extend(end());
            assert!(read(&archive, 512).is_err(), "{name}");
        }
        let mut archive = Vec::new();
        write_header(&entry("a", What::File(u64::MAX), 0o644), &mut archive);
        assert!(read(&archive, 512).is_err(), "a size");
        let mut archive = Vec::new();
        write_header(&entry("a", What::File(0), 0o644), &mut archive);
        archive[156] = b'3';
        assert!(read(&archive, 512).is_err(), "a device");
    }
}
