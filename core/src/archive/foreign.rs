//! Archives of other programs, as koze's own. They are not trusted: an entry that leads outside of the directory, or that
//! koze would not write, is an error that names it.

#[cfg(test)]
mod tests;

use futures_util::stream::{TryStreamExt as _, try_unfold};
use koze_protocol::tar::{Entry, What, end, padding, write_header};
use tar::{EntryType, Header};

use super::names::{MAX_DEPTH, Names};
use super::{Bytes, entry_error, truncate_name};
use crate::error::{Code, Error, Result};

/// The size of a block.
const BLOCK: usize = 512;
/// The maximum size of an extension, such as a long name, in bytes.
const MAX_EXTENSION: u64 = 1 << 20;
/// The longest name and link target, in bytes.
const MAX_NAME: usize = 4096;
/// The largest file, in bytes. No disk is larger.
const MAX_FILE: u64 = 1 << 53;

/// Returns an archive of another program as one that [`extract`](crate::Sandbox::extract) reads. Its permission bits are kept,
/// without those that change the user or group of a program.
///
/// # Errors
/// [`Code::InvalidInput`] for names that are absolute, occur twice, contain `..` or are not UTF-8; links that lead outside; hard
/// links, devices, pipes and sparse files; and an archive that ends early. [`Code::TooLarge`] for more than a million entries.
/// After an error, the result has no end.
pub fn foreign(tar: Bytes<'_>) -> Bytes<'_> {
    Box::pin(try_unfold(Some((tar, Foreign::default())), |state| async move {
        let Some((mut tar, mut foreign)) = state else { return Ok(None) };
        loop {
            let mut archive = Vec::new();
            match tar.try_next().await? {
                Some(bytes) => foreign.add_bytes(&bytes, &mut archive)?,
                None => return foreign.finish().map(|end| Some((end, None))),
            }
            if !archive.is_empty() {
                return Ok(Some((archive, Some((tar, foreign)))));
            }
        }
    }))
}

/// Translates an archive that arrives in pieces.
#[derive(Default)]
struct Foreign {
    collected: Vec<u8>,
    /// What extensions say about the next entry.
    next: Extended,
    names: Names,
    /// The name of the last entry.
    last: String,
    /// What is left of a file's content and of the padding after it, and the padding in the result.
    content: u64,
    padding: u64,
    own_padding: Vec<u8>,
    ended: bool,
}

#[derive(Default)]
struct Extended {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    is_sparse: bool,
}

impl Foreign {
    /// Adds bytes, and appends what follows from them to the result.
    fn add_bytes(&mut self, bytes: &[u8], archive: &mut Vec<u8>) -> Result<()> {
        self.collected.extend_from_slice(bytes);
        let mut collected = std::mem::take(&mut self.collected);
        let mut rest = &collected[..];
        while !rest.is_empty() && !self.ended {
            let before = rest.len();
            rest = self.translate_part(rest, archive)?;
            if rest.len() == before {
                break;
            }
        }
        // What follows the end is dropped. What is left of a part is not copied: an extension may arrive byte by byte.
        if !self.ended {
            let handled = collected.len() - rest.len();
            collected.drain(..handled);
            self.collected = collected;
        }
        Ok(())
    }

    /// Handles the next part. Returns the rest, which is the same if the part has not arrived.
    fn translate_part<'a>(&mut self, rest: &'a [u8], archive: &mut Vec<u8>) -> Result<&'a [u8]> {
        if self.content > 0 {
            let (content, rest) = split_at_most(rest, self.content);
            self.content -= content.len() as u64;
            archive.extend(content);
            if self.content == 0 {
                archive.append(&mut self.own_padding);
            }
            return Ok(rest);
        }
        if self.padding > 0 {
            let (padding, rest) = split_at_most(rest, self.padding);
            self.padding -= padding.len() as u64;
            return Ok(rest);
        }
        let Some((block, after)) = rest.split_at_checked(BLOCK) else { return Ok(rest) };
        if block.iter().all(|byte| *byte == 0) {
            self.ended = true;
            return Ok(after);
        }
        let header = Header::from_byte_slice(block);
        self.check_sum(header)?;
        let kind = header.entry_type();
        let is_extension = kind.is_gnu_longname()
            || kind.is_gnu_longlink()
            || kind.is_pax_local_extensions()
            || kind.is_pax_global_extensions();
        let size = self.next.size.filter(|_| !is_extension).or_else(|| header.entry_size().ok());
        let Some(size) = size else { return Err(entry_error(&self.entry_name(header), "has no valid size")) };
        if is_extension {
            if size > MAX_EXTENSION {
                return Err(entry_error(&self.entry_name(header), "is an extension that is too long"));
            }
            let length = usize::try_from(size).unwrap_or(usize::MAX);
            let Some((text, after)) = after.split_at_checked(length.next_multiple_of(BLOCK)) else {
                return Ok(rest);
            };
            self.read_extension(kind, &text[..length])?;
            return Ok(after);
        }
        let entry = self.parse_entry(header, size)?;
        if let What::File(size) = entry.what {
            self.content = size;
            self.padding = size.next_multiple_of(BLOCK as u64) - size;
            self.own_padding = padding(size);
        }
        write_header(&entry, archive);
        Ok(after)
    }

    fn check_sum(&self, header: &Header) -> Result<()> {
        let bytes = header.as_bytes();
        // The field itself counts as spaces.
        let sum: u32 = bytes[..148].iter().chain(&bytes[156..]).map(|byte| u32::from(*byte)).sum();
        if header.cksum().is_ok_and(|wanted| wanted == sum + 8 * u32::from(b' ')) {
            return Ok(());
        }
        if !self.last.is_empty() {
            return Err(entry_error(&self.last, "is followed by something that is not an entry"));
        }
        let why = if is_compressed(bytes) { COMPRESSED } else { "this is not a tar archive" };
        Err(Error::new(Code::InvalidInput, why))
    }

    /// Returns the name of an entry as an error shows it.
    fn entry_name(&self, header: &Header) -> String {
        match &self.next.name {
            Some(name) => String::from_utf8_lossy(name).into_owned(),
            None => String::from_utf8_lossy(&header.path_bytes()).into_owned(),
        }
    }

    /// Reads an extension of the next entry, or of all.
    fn read_extension(&mut self, kind: EntryType, text: &[u8]) -> Result<()> {
        let value = text.strip_suffix(&[0]).unwrap_or(text).to_vec();
        if kind.is_gnu_longname() {
            self.next.name = Some(value);
            return Ok(());
        }
        if kind.is_gnu_longlink() {
            self.next.link = Some(value);
            return Ok(());
        }
        let damaged = || Error::new(Code::InvalidInput, "the archive has an extension that is damaged");
        let mut rest = text;
        while !rest.is_empty() {
            let ((key, value), after) = split_record(rest).ok_or_else(damaged)?;
            rest = after;
            let is_ours = matches!(key, b"path" | b"linkpath" | b"size") || key.starts_with(b"GNU.sparse.");
            if is_ours && kind.is_pax_global_extensions() {
                let key = String::from_utf8_lossy(key);
                let message = format!("the archive has a global extension `{key}`, which koze does not read");
                return Err(Error::new(Code::InvalidInput, message));
            }
            match key {
                b"path" => self.next.name = Some(value.to_vec()),
                b"linkpath" => self.next.link = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|size| size.parse().ok());
                    self.next.size = Some(size.ok_or_else(damaged)?);
                }
                _ if is_ours => self.next.is_sparse = true,
                // Times, owners and attributes are not kept.
                _ => {}
            }
        }
        Ok(())
    }

    fn parse_entry(&mut self, header: &Header, size: u64) -> Result<Entry> {
        let Extended { name, link, is_sparse, .. } = std::mem::take(&mut self.next);
        let name = name.unwrap_or_else(|| header.path_bytes().into_owned());
        let is_directory_name = name.ends_with(b"/");
        let name = relative_name(&name)?;
        let refuse = |why: &str| Err(entry_error(&name, why));
        let what = match header.entry_type() {
            EntryType::Directory => What::Directory,
            // As very old programs write directories.
            EntryType::Regular if is_directory_name => What::Directory,
            _ if is_sparse => return refuse("is a sparse file: archive it without `--sparse`"),
            EntryType::Regular | EntryType::Continuous => What::File(size),
            EntryType::Symlink => {
                let link = link.or_else(|| header.link_name_bytes().map(Into::into)).unwrap_or_default();
                What::Link(check_link_target(&name, &link)?)
            }
            EntryType::Link => {
                return refuse("is a hard link: archive it as a file, with `tar --hard-dereference`");
            }
            EntryType::GNUSparse => return refuse("is a sparse file: archive it without `--sparse`"),
            EntryType::Char | EntryType::Block => return refuse("is a device: leave it out"),
            EntryType::Fifo => return refuse("is a pipe: leave it out"),
            _ => return refuse("is not a file, directory or symbolic link: leave it out"),
        };
        match what {
            What::File(size) if size > MAX_FILE => return refuse("has a size that no disk has"),
            What::Directory | What::Link(_) if size > 0 => return refuse("has content, but is not a file"),
            What::File(_) | What::Link(_) if name.is_empty() => {
                return Err(entry_error(".", "is the directory itself, but not a directory"));
            }
            _ => {}
        }
        self.names.add_name(&name, what == What::Directory)?;
        let Ok(mode) = header.mode() else { return refuse("has no valid mode") };
        self.last = if name.is_empty() { ".".to_owned() } else { name.clone() };
        Ok(Entry { name, what, mode: mode & 0o777, mtime: header.mtime().unwrap_or_default() })
    }

    /// Returns the end of the result.
    fn finish(self) -> Result<Vec<u8>> {
        if self.ended {
            return Ok(end());
        }
        let message = match (&*self.last, self.content) {
            // A small archive may be shorter than a block when it is compressed.
            ("", _) if is_compressed(&self.collected) => COMPRESSED.to_owned(),
            ("", _) => "the archive is incomplete: it has no entry and no end".to_owned(),
            (last, 0) => {
                format!("the archive is incomplete: it ends after the entry `{}`", truncate_name(last))
            }
            (last, left) => {
                let last = truncate_name(last);
                format!("the archive is incomplete: it ends within the entry `{last}`, {left} bytes early")
            }
        };
        Err(Error::new(Code::InvalidInput, message))
    }
}

const COMPRESSED: &str =
    "the archive is compressed: send the tar archive itself, such as the output of `gunzip -c`";

/// Returns whether a file begins as one of gzip, zstd, bzip2 or xz.
fn is_compressed(bytes: &[u8]) -> bool {
    let magic = [&[0x1f, 0x8b][..], &[0x28, 0xb5, 0x2f, 0xfd], b"BZh", &[0xfd, b'7', b'z', b'X', b'Z']];
    magic.iter().any(|magic| bytes.starts_with(magic))
}

/// Splits at most this many bytes off.
fn split_at_most(bytes: &[u8], most: u64) -> (&[u8], &[u8]) {
    bytes.split_at(usize::try_from(most).unwrap_or(usize::MAX).min(bytes.len()))
}

/// A key and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// Splits a record off an extension of POSIX: its length in decimal, a space, a key, `=`, a value, a line feed.
fn split_record(bytes: &[u8]) -> Option<(Pair<'_>, &[u8])> {
    let digits = bytes.iter().position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()?;
    let (record, rest) = bytes.split_at_checked(length)?;
    let pair = record.get(digits + 1..)?.strip_suffix(b"\n")?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    Some(((&pair[..equals], &pair[equals + 1..]), rest))
}

/// Returns the name of an entry relative to the directory; that of the directory itself is empty.
fn relative_name(name: &[u8]) -> Result<String> {
    let Ok(text) = std::str::from_utf8(name) else {
        return Err(entry_error(&String::from_utf8_lossy(name), "has a name that is not UTF-8"));
    };
    let refuse = |why: &str| Err(entry_error(text, why));
    if text.is_empty() || text.contains('\0') {
        return refuse("has no valid name");
    }
    if text.starts_with('/') {
        return refuse("has an absolute name: it must be relative to the directory");
    }
    if text.len() > MAX_NAME {
        return refuse("has a name that is too long");
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return refuse("leads outside of the directory");
    }
    if parts.len() > MAX_DEPTH {
        return refuse("is too many directories deep");
    }
    Ok(parts.join("/"))
}

/// Returns the target of a link, which must lead to something in the directory. Behind other names, `..` may lead anywhere, because
/// one of them may be a link.
fn check_link_target(name: &str, target: &[u8]) -> Result<String> {
    let Ok(text) = std::str::from_utf8(target) else {
        return Err(entry_error(name, "is a link whose target is not UTF-8"));
    };
    if text.is_empty() || text.contains('\0') || text.len() > MAX_NAME {
        return Err(entry_error(name, "is a link without a valid target"));
    }
    let mut parts = text.split('/').filter(|part| !matches!(*part, "" | ".")).peekable();
    let mut up = 0;
    while parts.next_if_eq(&"..").is_some() {
        up += 1;
    }
    if text.starts_with('/') || up > name.matches('/').count() || parts.any(|part| part == "..") {
        let why = format!("is a link to `{}`, which leads outside of the directory", truncate_name(text));
        return Err(entry_error(name, &why));
    }
    Ok(text.to_owned())
}
