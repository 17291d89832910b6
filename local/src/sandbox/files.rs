//! Files of a sandbox. The guest opens them and passes their descriptors; the data does not go through it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koze_guest::message::{self, Request};
use koze_protocol::Misfit;
use koze_protocol::edit::{Applied, Edit, Edited, MAX_EDITED};
use koze_protocol::lines::{LineRange, LineReader, Lines, MAX_UNSIZED};

use super::running::Running;
use crate::engine;
use crate::errors::{convert_fault, gone_error, unexpected_answer};
use koze_core::error::{Code, Error, Result};
use koze_core::sandbox::{Entry, Kind, Piece, misfit, rejected};

/// How much is read from a file that reports size 0, as those of `/proc` do.
const PIECE: usize = 64 << 10;
/// The size of one read from other files, in bytes.
const STEP: usize = 16 << 20;

/// A file that the guest has opened.
pub(super) struct Opened {
    pub(super) file: File,
    /// Its size.
    size: u64,
    /// Whether it was created.
    pub(super) made: bool,
}

/// Requests a file from the guest. Its type is verified, because reading a pipe might never end.
pub(super) async fn open_file(running: &Running, number: u64, request: &Request) -> Result<Opened> {
    let received = running.ask(number, request, &[]).await?.await.map_err(|_| gone_error())?;
    if let message::Answer::Failed(fault) = received.message {
        return Err(convert_fault(fault));
    }
    let made = received.message == message::Answer::Made;
    let file: OwnedFd = received.descriptors.into_iter().next().ok_or_else(unexpected_answer)?;
    let file = File::from(file);
    match file.metadata() {
        Ok(about) if about.is_file() => Ok(Opened { file, size: about.len(), made }),
        _ => Err(unexpected_answer()),
    }
}

/// Reads part of a file.
pub(super) async fn read_file(
    running: &Running,
    path: message::Place,
    offset: u64,
    limit: u64,
) -> Result<Piece> {
    let name = path.path.clone();
    let Opened { file, size, .. } = open_file(running, running.number(), &Request::Read(path)).await?;
    let read = move || read_piece(&file, size, offset, limit).map_err(|error| file_error(error, &name));
    // A short read is faster than a thread switch.
    if (1..=PIECE as u64).contains(&size) { read() } else { engine::run_blocking(read).await }
}

fn read_piece(file: &File, size: u64, offset: u64, limit: u64) -> io::Result<Piece> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    while bytes.len() < limit {
        let at = offset.saturating_add(bytes.len() as u64);
        // Read one byte more than expected: a shorter read then marks the end.
        let expected = usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX).saturating_add(1);
        let step = if size > 0 { expected.min(STEP) } else { PIECE }.min(limit - bytes.len());
        let start = bytes.len();
        bytes.resize(start + step, 0);
        let read = match file.read_at(&mut bytes[start..], at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                bytes.truncate(start);
                continue;
            }
            // Some files of /proc reject offsets this large.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && at > size => 0,
            read => read?,
        };
        bytes.truncate(start + read);
        if read == 0 || (size > 0 && read < step) {
            break;
        }
    }
    let size = if bytes.is_empty() { size } else { size.max(offset.saturating_add(bytes.len() as u64)) };
    Ok(Piece { bytes, size })
}

/// How much is read at once of a file whose lines are counted.
const LINES_STEP: usize = 256 << 10;

/// Reads lines of a file, until `cancelled` is set.
pub(super) async fn read_lines(
    running: &Running,
    path: message::Place,
    range: LineRange,
    cancelled: Arc<AtomicBool>,
) -> Result<Lines> {
    let reader = LineReader::new(range)?;
    let name = path.path.clone();
    let Opened { file, size, .. } = open_file(running, running.number(), &Request::Read(path)).await?;
    engine::run_blocking(move || {
        let lines = feed_lines(&file, size, reader, &cancelled).map_err(|error| file_error(error, &name))?;
        lines.ok_or_else(|| Error::new(Code::Unavailable, "the call was canceled"))
    })
    .await
}

fn feed_lines(
    file: &File,
    size: u64,
    mut reader: LineReader,
    cancelled: &AtomicBool,
) -> io::Result<Option<Lines>> {
    // Files of /proc report a size of 0.
    let end = if size > 0 { size } else { MAX_UNSIZED };
    let (mut at, mut buffer) = (0, vec![0; LINES_STEP]);
    while at < end {
        if cancelled.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let step = usize::try_from(end - at).unwrap_or(usize::MAX).min(LINES_STEP);
        let read = match file.read_at(&mut buffer[..step], at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        at += read as u64;
        if read == 0 || !reader.feed(&buffer[..read]) {
            break;
        }
    }
    Ok(Some(reader.finish(size.max(at))))
}

/// Replaces a text in a file. The caller makes sure that nothing else writes to it meanwhile.
pub(super) async fn edit_file(running: &Running, path: message::Place, edit: Edit) -> Result<Edited> {
    let Opened { file, size, .. } =
        open_file(running, running.number(), &Request::Read(path.clone())).await?;
    let name = path.path.clone();
    let applied = engine::run_blocking(move || {
        // One byte more than it may have, so that a file that is too large is noticed, also one that reports no size.
        let piece = read_piece(&file, size, 0, MAX_EDITED + 1).map_err(|error| file_error(error, &name))?;
        edit.apply(&piece.bytes).map_err(|why| rejected(why, &name))
    });
    match applied.await? {
        Applied::Changed { content, replaced } => {
            let size = replace_file(running, path, content).await?;
            Ok(Edited::Done { size, replaced })
        }
        Applied::Unchanged(edited) => Ok(edited),
    }
}

/// The limits of a directory listing: entries, and bytes of names and link targets.
const MAX_LIST: usize = 1_000_000;
const LARGEST_LIST: usize = 128 << 20;

/// A directory listing that is assembled from pages.
#[derive(Default)]
pub(super) struct Listing {
    entries: Vec<Entry>,
    bytes: usize,
}

impl Listing {
    /// Adds a page.
    pub(super) fn add(&mut self, page: Vec<Entry>, path: &str) -> Result<()> {
        for entry in page {
            self.bytes += entry.name.len();
            if let Kind::Link(target) = &entry.stat.kind {
                self.bytes += target.len();
            }
            self.entries.push(entry);
        }
        if self.entries.len() <= MAX_LIST && self.bytes <= LARGEST_LIST {
            return Ok(());
        }
        let text = format!(
            "{path} is too large to list: the limit is {MAX_LIST} entries, or {} MiB of names; use a command instead",
            LARGEST_LIST >> 20
        );
        Err(Error::new(Code::TooLarge, text))
    }

    pub(super) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }
}

/// Replaces a file atomically.
pub(super) async fn replace_file(running: &Running, path: message::Place, bytes: Vec<u8>) -> Result<u64> {
    let name = path.path.clone();
    let create = running.number();
    let mut file = open_file(running, create, &Request::Create(path)).await?.file;
    let written = engine::run_blocking(move || {
        file.write_all(&bytes).map_err(|error| file_error(error, &name))?;
        Ok(bytes.len() as u64)
    })
    .await;
    match written {
        Ok(size) => running.call(&Request::Commit { create }).await.map(|_| size),
        Err(error) => {
            running.send_request(running.number(), &Request::Abort { create }, &[]).await?;
            Err(error)
        }
    }
}

/// Appends to a file, all bytes or none. With an offset, the file must have that size, or not exist if it is 0.
pub(super) async fn append_to_file(
    running: &Running,
    path: message::Place,
    bytes: Vec<u8>,
    offset: Option<u64>,
) -> Result<u64> {
    let name = path.path.clone();
    let create = running.number();
    let Opened { mut file, made, .. } = open_file(running, create, &Request::Append(path)).await?;
    let written = engine::run_blocking(move || {
        let before = file.metadata().map_err(|error| file_error(error, &name))?.len();
        if let Some(offset) = offset {
            Misfit::check(offset, (!made).then_some(before)).map_err(|why| misfit(why, &name))?;
        }
        if let Err(error) = file.write_all(&bytes) {
            // Some of the bytes may have been written.
            let _ = file.set_len(before);
            return Err(file_error(error, &name));
        }
        Ok(file.metadata().map_err(|error| file_error(error, &name))?.len())
    })
    .await;
    match written {
        Ok(_) if made => drop(running.call(&Request::Commit { create }).await?),
        Err(_) if made => running.send_request(running.number(), &Request::Abort { create }, &[]).await?,
        _ => {}
    }
    written
}

fn file_error(error: io::Error, path: &str) -> Error {
    let (code, text) = match error.kind() {
        io::ErrorKind::StorageFull => {
            (Code::TooLarge, format!("{path} does not fit: the disk of this machine is full"))
        }
        io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            (Code::TooLarge, format!("{path} does not fit on the sandbox's disk"))
        }
        io::ErrorKind::PermissionDenied => (Code::PermissionDenied, format!("permission denied for {path}")),
        io::ErrorKind::InvalidInput => {
            (Code::InvalidInput, format!("{path} cannot be read: the path is not valid"))
        }
        kind => (Code::Internal, format!("{path}: {kind}")),
    };
    Error::new(code, text).with_source(error)
}
