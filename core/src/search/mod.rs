//! Searches through the other operations of a sandbox, for those that cannot search themselves: it lists every directory,
//! and reads every file.

mod walk;

use std::sync::Arc;
use std::time::Duration;

use koze_protocol::search::{Cursor, End, LARGEST_RESULT, Matcher, Results, Search, Searched};

use self::walk::{Found, Walk};
use crate::error::{Code, Error, Result};
use crate::sandbox::{Place, Sandbox};
use crate::time::Start;
use crate::together::join_all;
use crate::turns;

/// How many files are read at the same time, and how many of their bytes.
const AT_ONCE: usize = 16;
const BYTES: u64 = 16 << 20;
/// Less work is done without giving others a turn.
const SHORT: usize = 256 << 10;

/// Searches a file, or the files of a directory.
///
/// # Errors
/// As [`Sandbox::search`].
pub async fn by_operations<S: Sandbox>(sandbox: &S, place: Place<'_>, search: &Search) -> Result<Searched> {
    let wrong = |error| Error::new(Code::InvalidInput, format!("the pattern is not valid: {error}"));
    let matcher = Arc::new(Matcher::new(search).map_err(wrong)?);
    let (start, timeout) = (Start::now(), Duration::from_millis(search.timeout_ms.into()));
    let mut walk = Walk::start_at(sandbox, place, search).await?;
    let mut results = Results::new(search);
    loop {
        let mut batch = Batch::default();
        let end = batch.collect_files(&mut walk, &matcher).await?;
        for (file, piece) in batch.read_files(sandbox, place, search.max_file_size).await {
            if start.elapsed() > timeout {
                return Ok(results.finish(End::Timeout));
            }
            match (file, piece) {
                (File::Skipped(path), _) => results.add_skipped(path),
                (File::Read(_), None) => {}
                (File::Read(path), Some(Err(error))) => match error.code {
                    // It was removed meanwhile.
                    Code::NotFound => {}
                    Code::Unavailable => return Err(error),
                    _ => results.add_skipped(path),
                },
                (File::Read(path), Some(Ok(bytes))) => match bytes {
                    bytes if bytes.len() as u64 > search.max_file_size => results.add_skipped(path),
                    bytes if matcher.is_binary(&bytes) => results.add_binary(path),
                    bytes => search_text(&matcher, &path, bytes, &mut results).await?,
                },
            }
            if results.is_full() {
                return Ok(results.finish(End::Full));
            }
        }
        if let Some(end) = end {
            return Ok(results.finish(end));
        }
        if start.elapsed() > timeout {
            return Ok(results.finish(End::Timeout));
        }
    }
}

/// Searches the text of a file.
async fn search_text(
    matcher: &Arc<Matcher>,
    path: &str,
    bytes: Vec<u8>,
    results: &mut Results,
) -> Result<()> {
    let (bytes, most) = (Arc::new(bytes), results.room());
    let (mut at, mut lines, mut length) = (Cursor::default(), Vec::new(), 0);
    while at.offset < bytes.len() && lines.len() < most && length < LARGEST_RESULT {
        let (matcher, bytes) = (Arc::clone(matcher), Arc::clone(&bytes));
        let is_short = matcher.work(bytes.len() - at.offset) <= SHORT;
        let left = most - lines.len();
        let step = move || {
            let (mut at, mut found) = (at, Vec::new());
            matcher.step(&bytes, &mut at, left, &mut found);
            (at, found)
        };
        let (next, found) = if is_short { step() } else { turns::take(step).await? };
        at = next;
        length += found.iter().map(|line| line.text.len()).sum::<usize>();
        lines.extend(found);
    }
    results.add_lines(path, lines);
    Ok(())
}

/// What the walk has found.
enum File {
    Read(String),
    Skipped(String),
}

/// The next files of a walk.
#[derive(Default)]
struct Batch {
    files: Vec<File>,
    bytes: u64,
}

impl Batch {
    /// Collects files. Returns why there are no more.
    async fn collect_files<S: Sandbox>(
        &mut self,
        walk: &mut Walk<'_, S>,
        matcher: &Matcher,
    ) -> Result<Option<End>> {
        while self.files.len() < AT_ONCE && self.bytes < BYTES {
            match walk.next().await? {
                Found::File { path, name, size } => {
                    if !matcher.includes(if path.is_empty() { &name } else { &path }) {
                        continue;
                    }
                    if size > walk.search.max_file_size {
                        self.files.push(File::Skipped(path));
                        continue;
                    }
                    self.bytes += size;
                    self.files.push(File::Read(path));
                }
                Found::Unreadable(path) => self.files.push(File::Skipped(path)),
                Found::End(end) => return Ok(Some(end)),
            }
        }
        Ok(None)
    }

    /// Reads the files.
    async fn read_files<S: Sandbox>(
        self,
        sandbox: &S,
        start: Place<'_>,
        most: u64,
    ) -> Vec<(File, Option<Result<Vec<u8>>>)> {
        let read = self.files.into_iter().map(async |file| {
            let File::Read(path) = &file else { return (file, None) };
            let path = walk::join_path(start.path, path);
            let piece =
                sandbox.read(Place { root: start.root, path: &path }, 0, most.saturating_add(1)).await;
            (file, Some(piece.map(|piece| piece.bytes)))
        });
        join_all(read).await
    }
}
