//! Trees as archives, on systems for which the streams of the guest are not made.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use koze_core::archive::Contents;
use koze_core::{Code, Error, Result};
use koze_protocol::tar::{Entry, MAX_ENTRIES, What, end, padding, write_header};
use walkdir::WalkDir;

use super::host::failed;
use crate::commands::pieces::Pieces;
use crate::commands::untar;
use crate::provider::archives;
use crate::session::message::Way;

/// How a tree comes into a sandbox.
pub(super) const IN: Way = Way::NewArchive;
/// How it leaves one.
pub(super) const OUT: Way = Way::ArchiveOut;

/// How many pieces of an archive wait to be unpacked.
const AHEAD: usize = 2;

/// Writes a directory as an archive. Links are not followed, except for the given path itself.
///
/// # Errors
/// [`Code::Unsupported`] for a pipe, socket or device, [`Code::TooLarge`] for too many entries, [`Code::InvalidInput`] for a name that is
/// not UTF-8, and the errors of the file system.
pub(super) fn pack(directory: &Path, mut to: impl Write) -> Result<()> {
    let mut count = 0;
    for found in WalkDir::new(directory).sort_by_file_name() {
        let found = found.map_err(|error| {
            let path = error.path().unwrap_or(directory).to_owned();
            failed(path, &error.into())
        })?;
        count += 1;
        if count > MAX_ENTRIES {
            let message =
                format!("`{}` has more than {MAX_ENTRIES} files and directories", directory.display());
            return Err(Error::new(Code::TooLarge, message));
        }
        let path = found.path();
        let name = utf8(path.strip_prefix(directory).unwrap_or(path), path)?;
        let about = found.metadata().map_err(|error| failed(path, &error.into()))?;
        if pack_entry(path, name, &about, &mut to)? == Packed::ReaderGone {
            // The sandbox says why.
            return Ok(());
        }
    }
    let ended = to.write_all(&end()).and_then(|()| to.flush());
    // As above.
    ended.or(Ok(()))
}

#[derive(PartialEq)]
enum Packed {
    Written,
    ReaderGone,
}

fn pack_entry(path: &Path, name: &str, about: &Metadata, to: &mut impl Write) -> Result<Packed> {
    let mut file = None;
    let what = if about.is_dir() {
        What::Directory
    } else if about.is_symlink() {
        let target = fs::read_link(path).map_err(|error| failed(path, &error))?;
        What::Link(utf8(&target, path)?.to_owned())
    } else if about.is_file() {
        let opened = File::open(path).map_err(|error| failed(path, &error))?;
        // What is appended meanwhile is not part of the copy.
        let size = opened.metadata().map_err(|error| failed(path, &error))?.len();
        file = Some((opened, size));
        What::File(size)
    } else {
        let message =
            format!("`{}` cannot be copied: it is not a file, directory or symbolic link", path.display());
        return Err(Error::new(Code::Unsupported, message));
    };
    let mtime = u64::try_from(about.mtime()).unwrap_or(0);
    let entry = Entry { name: name.to_owned(), what, mode: about.permissions().mode(), mtime };
    let mut header = Vec::new();
    write_header(&entry, &mut header);
    if to.write_all(&header).is_err() {
        return Ok(Packed::ReaderGone);
    }
    let Some((file, size)) = file else { return Ok(Packed::Written) };
    let mut content = ReadErrors { file: file.take(size), error: None };
    let copied = io::copy(&mut content, to);
    if let Some(error) = content.error {
        return Err(failed(path, &error));
    }
    match copied {
        Ok(copied) if copied < size => Err(super::host::changed(&path.to_string_lossy())),
        Ok(_) if to.write_all(&padding(size)).is_ok() => Ok(Packed::Written),
        _ => Ok(Packed::ReaderGone),
    }
}

/// Tells errors of reading from those of writing.
struct ReadErrors<R> {
    file: R,
    error: Option<io::Error>,
}

impl<R: Read> Read for ReadErrors<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.file.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            Err(error) => {
                self.error = Some(error);
                Ok(0)
            }
            read => read,
        }
    }
}

fn utf8<'a>(text: &'a Path, path: &Path) -> Result<&'a str> {
    text.to_str().ok_or_else(|| {
        let message = format!("`{}`: the name or the target of a link is not UTF-8", path.display());
        Error::new(Code::InvalidInput, message)
    })
}

/// Creates the directory of an archive at a path that does not exist.
///
/// # Errors
/// The errors of the sandbox and of the file system, [`Code::Unsupported`] for a pipe, socket or device, and [`Code::Unavailable`]
/// for a stream that ends early.
pub(super) fn unpack(path: &Path, from: impl Read + Send + 'static) -> Result<u64> {
    fs::create_dir(path).map_err(|error| failed(path, &error))?;
    let (sender, receiver) = mpsc::sync_channel(AHEAD);
    let reading: thread::JoinHandle<Result<Contents>> =
        thread::spawn(move || archives::read(from, |piece| sender.send(Ok(piece)).is_ok()));
    let mut archive = tar::Archive::new(Pieces::new(receiver));
    let unpacked = untar::unpack(&mut archive, path);
    // What follows the end of the archive.
    let rest = unpacked.and_then(|()| io::copy(&mut archive.into_inner(), &mut io::sink()));
    let read = reading.join().expect("reading an archive does not panic");
    match (rest, read) {
        (Ok(_), Ok(Contents { skipped: 0, bytes, .. })) => Ok(bytes),
        (Ok(_), Ok(Contents { skipped, .. })) => {
            let message = format!(
                "the directory cannot be copied: {skipped} of its entries are not a file, directory or symbolic link"
            );
            Err(Error::new(Code::Unsupported, message))
        }
        (Ok(_), Err(error)) => Err(error),
        // If the stream broke off, its end says why.
        (Err(_), Err(error)) if error.code != Code::Unavailable => Err(error),
        (Err(error), _) => Err(failed(path, &error)),
    }
}
