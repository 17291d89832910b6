//! Copies the content of files, on several threads. The kernel copies the bytes, and holes stay holes.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rustix::fs::{Gid, Mode, SeekFrom as Seek, Uid};
use rustix::io::Errno;

/// The maximum number of threads.
const THREADS: usize = 4;
/// The maximum number of waiting batches.
const WAITING: usize = 4;
/// The unit of `st_blocks`, in bytes.
const BLOCK: u64 = 512;
/// The maximum number of bytes of one system call.
const PIECE: usize = 1 << 30;

/// A file to copy.
#[derive(Debug)]
pub(super) struct FileCopy {
    pub(super) from: File,
    /// A new file.
    pub(super) to: File,
    /// The size of the file in bytes when it was opened. If it has grown since, the rest is left out.
    pub(super) size: u64,
    /// The owner of the new file, if that is another user.
    pub(super) owner: Option<(Uid, Gid)>,
    /// The permission bits of the new file.
    pub(super) mode: Mode,
}

impl FileCopy {
    /// Copies the file. Returns how many bytes were written.
    fn run(mut self) -> io::Result<u64> {
        let written = copy_with_holes(&self.from, &mut self.to, self.size)?;
        if let Some((user, group)) = self.owner {
            rustix::fs::fchown(&self.to, Some(user), Some(group))?;
        }
        rustix::fs::fchmod(&self.to, self.mode)?;
        Ok(written)
    }
}

/// The error of a file that was not copied, and its path.
pub(super) type Failure = (io::Error, String);

/// Files to copy, with their paths for errors. Batches, because passing a small file to a thread takes as long as copying it.
pub(super) type Batch = Vec<(FileCopy, String)>;

/// Accepts files to copy.
pub(super) struct Copies<'a> {
    jobs: SyncSender<Batch>,
    state: &'a State,
}

#[derive(Default)]
struct State {
    written: AtomicU64,
    most: u64,
    /// The first error, and the path of its file.
    error: Mutex<Option<Failure>>,
}

impl Copies<'_> {
    /// Adds files.
    ///
    /// # Errors
    /// The error of an earlier file, with its path.
    pub(super) fn add(&self, batch: Batch) -> Result<(), Failure> {
        if let Some(error) = self.state.error() {
            return Err(error);
        }
        // The threads receive as long as `self` exists.
        self.jobs.send(batch).map_err(|_| (io::ErrorKind::BrokenPipe.into(), String::new()))
    }
}

impl State {
    fn work(&self, jobs: &Mutex<Receiver<Batch>>) {
        // The lock is held while waiting: one thread waits for a batch, the others for the lock.
        let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
        while let Some(batch) = next() {
            for (copy, path) in batch {
                let copied = copy.run().and_then(|written| {
                    let all = self.written.fetch_add(written, Ordering::Relaxed) + written;
                    if all > self.most { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
                });
                if let Err(error) = copied {
                    self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((error, path));
                }
            }
        }
    }

    fn error(&self) -> Option<Failure> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Copies the files that `work` adds. Returns its result and the number of bytes written, which is at most `most`.
///
/// # Errors
/// The error of `work`, or the error of a file, converted by `failed`.
pub(super) fn with_copies<T, E>(
    most: u64,
    failed: impl FnOnce(Failure) -> E,
    work: impl FnOnce(&Copies<'_>) -> Result<T, E>,
) -> Result<(T, u64), E> {
    let state = State { most, ..State::default() };
    let (jobs, waiting) = sync_channel(WAITING);
    let waiting = Mutex::new(waiting);
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS);
    let result = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| state.work(&waiting));
        }
        // Dropping `Copies` ends the threads.
        work(&Copies { jobs, state: &state })
    })?;
    match state.error() {
        Some(error) => Err(failed(error)),
        None => Ok((result, state.written.into_inner())),
    }
}

/// Copies the first `size` bytes of a file, and keeps its holes. Returns the number of bytes written.
fn copy_with_holes(from: &File, to: &mut File, size: u64) -> io::Result<u64> {
    let blocks = u64::try_from(rustix::fs::fstat(from)?.st_blocks).unwrap_or_default();
    if blocks * BLOCK >= size {
        return copy_range(from, to, 0, size);
    }
    let (mut at, mut written) = (0, 0);
    while at < size {
        let data = match rustix::fs::seek(from, Seek::Data(at)) {
            // The rest is a hole.
            Err(Errno::NXIO) => break,
            data => data?.min(size),
        };
        let end = rustix::fs::seek(from, Seek::Hole(data))?.min(size);
        written += copy_range(from, to, data, end)?;
        at = end.max(data + 1);
    }
    to.set_len(size)?;
    Ok(written)
}

fn copy_range(from: &File, to: &mut File, start: u64, end: u64) -> io::Result<u64> {
    let (mut read, mut write) = (start, start);
    while read < end {
        let left = usize::try_from(end - read).unwrap_or(PIECE).min(PIECE);
        match rustix::fs::copy_file_range(from, Some(&mut read), &*to, Some(&mut write), left) {
            // The file has become shorter.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            // The file is on another file system, or on one that does not support the call.
            Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) if read == start => {
                return copy_bytes(from, to, start, end);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(end - start)
}

fn copy_bytes(mut from: &File, to: &mut File, start: u64, end: u64) -> io::Result<u64> {
    use std::io::Read as _;
    from.seek(SeekFrom::Start(start))?;
    to.seek(SeekFrom::Start(start))?;
    let copied = io::copy(&mut from.take(end - start), to)?;
    if copied == end - start { Ok(copied) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, content).unwrap();
        file
    }

    fn job(from: File, size: u64) -> (FileCopy, File) {
        let to = tempfile::tempfile().unwrap();
        let seen = to.try_clone().unwrap();
        (FileCopy { from, to, size, owner: None, mode: Mode::from_raw_mode(0o4751) }, seen)
    }

    #[test]
    fn holes_are_kept() {
        let from = file(b"start");
        from.set_len(10 << 20).unwrap();
        for at in [1 << 20, 5 << 20] {
            (&from).seek(SeekFrom::Start(at)).unwrap();
            io::Write::write_all(&mut &from, b"data").unwrap();
        }
        let (copy, mut to) = job(from.try_clone().unwrap(), 10 << 20);
        let written = copy.run().unwrap();
        assert!((13..=128 << 10).contains(&written), "{written}");
        let about = to.metadata().unwrap();
        assert!(about.len() == 10 << 20 && about.blocks() < 1000, "{about:?}");
        assert_eq!(about.permissions().mode() & 0o7777, 0o4751);
        let read = |file: &mut File| {
            let mut content = Vec::new();
            file.seek(SeekFrom::Start(0)).unwrap();
            io::Read::read_to_end(file, &mut content).unwrap();
            content
        };
        assert!(read(&mut to) == read(&mut from.try_clone().unwrap()));
    }

    #[test]
    fn all_of_them_or_an_error() {
        let mut seen = Vec::new();
        let copied = with_copies(
            1 << 20,
            |failure| failure,
            |copies| {
                for number in 0..500_u32 {
                    let (copy, to) = job(file(&number.to_le_bytes()), 4);
                    copies.add(vec![(copy, number.to_string())])?;
                    seen.push(to);
                }
                Ok("done")
            },
        );
        assert_eq!(copied.unwrap(), ("done", 2000));
        assert!(seen.iter().all(|file| file.metadata().unwrap().len() == 4));

        let short = with_copies(
            1 << 20,
            |failure| failure,
            |copies| copies.add(vec![(job(file(b"abc"), 4).0, "a".into())]),
        );
        let (error, path) = short.unwrap_err();
        assert_eq!((error.kind(), path.as_str()), (io::ErrorKind::UnexpectedEof, "a"));
        let full = with_copies(
            3,
            |failure| failure,
            |copies| copies.add(vec![(job(file(b"abcd"), 4).0, "b".into())]),
        );
        assert_eq!(full.unwrap_err().0.kind(), io::ErrorKind::StorageFull);
        let own = with_copies::<(), _>(
            3,
            |failure| failure,
            |_| Err((io::ErrorKind::NotFound.into(), "own".into())),
        );
        assert_eq!(own.unwrap_err().1, "own");
    }
}
