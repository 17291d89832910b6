//! Searches batches of files on several threads.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use koze_protocol::search::{Cursor, End, LARGEST_RESULT, Line, Matcher, Results, Search, Searched};
use rustix::fs::{FileType, Mode, OFlags};

use super::batch::{Batch, Directory, Item};
use super::walk::place_below;
use crate::files;
use crate::message::{Code, Fault, Place};
use crate::place::{check_path, fault};

/// How many batches wait to be searched, and how many were begun but not added to the results because an earlier one is
/// not done.
const WAITING: usize = 4;
const AHEAD: usize = 12;
/// A larger file is searched while no other one is, because each takes as much memory as it is large.
const LARGE: usize = 1 << 20;
/// How much is read at once of a file that reports size 0, as those of `/proc` do.
const UNSIZED: usize = 64 << 10;

/// Held while a large file is in memory.
type One<'a> = MutexGuard<'a, ()>;

/// When to stop.
pub(super) struct Stop<'a> {
    pub(super) is_stopped: &'a (dyn Fn() -> bool + Sync),
    pub(super) until: Instant,
}

impl Stop<'_> {
    fn over(&self) -> Option<Over> {
        if (self.is_stopped)() {
            return Some(Over::Fault(Fault::new(Code::Unavailable, "the search was canceled")));
        }
        (Instant::now() >= self.until).then_some(Over::Timeout)
    }
}

/// What the threads share.
pub(super) struct Work<'a> {
    pub(super) place: &'a Place,
    pub(super) matcher: &'a Matcher,
    search: &'a Search,
    stop: &'a Stop<'a>,
    state: Mutex<State>,
    /// Notified when the state has changed.
    changed: Condvar,
    large: Mutex<()>,
}

struct State {
    waiting: VecDeque<(usize, Batch)>,
    /// What was found in batches that follow one that is not done.
    found: BTreeMap<usize, Vec<Outcome>>,
    results: Results,
    /// How many batches were handed out, and how many are in the results.
    handed_out: usize,
    added: usize,
    /// Whether no batch follows.
    is_whole: bool,
    /// Why nothing more is searched.
    over: Option<Over>,
}

enum Over {
    Full,
    Timeout,
    Fault(Fault),
}

/// What was found in a file.
enum Outcome {
    Lines(String, Vec<Line>),
    Binary(String),
    Skipped(String),
    /// Nothing more was searched, and why.
    End(Over),
}

impl<'a> Work<'a> {
    pub(super) fn new(
        place: &'a Place,
        search: &'a Search,
        matcher: &'a Matcher,
        stop: &'a Stop<'a>,
    ) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            found: BTreeMap::new(),
            results: Results::new(search),
            handed_out: 0,
            added: 0,
            is_whole: false,
            over: None,
        };
        let (state, changed, large) = (Mutex::new(state), Condvar::new(), Mutex::new(()));
        Work { place, matcher, search, stop, state, changed, large }
    }

    /// Returns whether nothing more is searched.
    pub(super) fn is_over(&self) -> bool {
        self.state().over.is_some()
    }

    /// Hands out a batch. If the others have enough to do, searches one.
    pub(super) fn add(&self, batch: Batch) {
        let mut buffer = Vec::new();
        let mut state = self.state();
        while state.over.is_none() {
            if state.waiting.len() < WAITING && state.handed_out - state.added < AHEAD {
                let number = state.handed_out;
                state.handed_out += 1;
                state.waiting.push_back((number, batch));
                self.changed.notify_all();
                return;
            }
            state = match state.waiting.pop_front() {
                Some(first) => {
                    drop(state);
                    self.one(first, &mut buffer);
                    self.state()
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Says that no batch follows, and searches the last ones.
    pub(super) fn no_more(&self) {
        self.state().is_whole = true;
        self.changed.notify_all();
        self.help();
    }

    /// Searches batches until there are no more.
    pub(super) fn help(&self) {
        let mut buffer = Vec::new();
        let mut state = self.state();
        while state.over.is_none() {
            state = match state.waiting.pop_front() {
                Some(first) => {
                    drop(state);
                    self.one(first, &mut buffer);
                    self.state()
                }
                None if state.is_whole => return,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Returns the results, once all threads are done.
    pub(super) fn finish(self, end: End) -> Result<Searched, Fault> {
        let State { results, over, .. } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match over {
            None | Some(Over::Full) => Ok(results.finish(end)),
            Some(Over::Timeout) => Ok(results.finish(End::Timeout)),
            Some(Over::Fault(fault)) => Err(fault),
        }
    }

    /// Searches a batch, and adds what was found to the results if all earlier batches are done.
    fn one(&self, (number, batch): (usize, Batch), buffer: &mut Vec<u8>) {
        let found = self.search(batch, buffer);
        let mut state = self.state();
        let state = &mut *state;
        state.found.insert(number, found);
        while let Some(found) = state.found.remove(&state.added) {
            state.added += 1;
            for outcome in found {
                if state.over.is_some() {
                    break;
                }
                match outcome {
                    Outcome::Lines(path, lines) => state.results.add_lines(&path, lines),
                    Outcome::Binary(path) => state.results.add_binary(path),
                    Outcome::Skipped(path) => state.results.add_skipped(path),
                    Outcome::End(over) => state.over = Some(over),
                }
                if state.results.is_full() {
                    state.over = Some(Over::Full);
                }
            }
        }
        self.changed.notify_all();
    }

    fn search(&self, batch: Batch, buffer: &mut Vec<u8>) -> Vec<Outcome> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut left = usize::try_from(self.search.max_matches).unwrap_or(usize::MAX);
        for item in batch.items {
            let outcome = match self.stop.over() {
                Some(over) => Some(Outcome::End(over)),
                None => self.item(item, left, buffer),
            };
            let is_end = match &outcome {
                Some(Outcome::Lines(path, lines)) => {
                    left -= lines.len();
                    bytes += lines.iter().map(|line| path.len() + line.text.len()).sum::<usize>();
                    // The results will be full.
                    left == 0 || bytes >= LARGEST_RESULT
                }
                Some(Outcome::End(_)) => true,
                _ => false,
            };
            found.extend(outcome);
            if is_end {
                break;
            }
        }
        found
    }

    /// Searches a file for at most `most` lines. Returns nothing for one without matches, or that is gone.
    fn item(&self, item: Item, most: usize, buffer: &mut Vec<u8>) -> Option<Outcome> {
        let (path, opened) = match item {
            Item::Opened(file) => (String::new(), Ok(file)),
            Item::Unreadable(path) => return Some(Outcome::Skipped(path)),
            Item::File { directory, name } => {
                let path = directory.below(&name);
                let opened = self.open(&directory, &name, &path);
                (path, opened)
            }
        };
        let read = opened.and_then(|file| self.read(file, buffer).map_err(|error| fault(&error, &path)));
        let (bytes, _one) = match read {
            Ok(Some((length, one))) => (&buffer[..length], one),
            Ok(None) => return Some(Outcome::Skipped(path)),
            Err(fault) => {
                return match fault.why {
                    // It was removed meanwhile.
                    Code::NotFound => None,
                    Code::Unavailable => Some(Outcome::End(Over::Fault(fault))),
                    _ => Some(Outcome::Skipped(path)),
                };
            }
        };
        if self.matcher.is_binary(bytes) {
            return Some(Outcome::Binary(path));
        }
        let (mut at, mut lines, mut length) = (Cursor::default(), Vec::new(), 0);
        while at.offset < bytes.len() && lines.len() < most && length < LARGEST_RESULT {
            if at.offset > 0
                && let Some(over) = self.stop.over()
            {
                return Some(Outcome::End(over));
            }
            let known = lines.len();
            self.matcher.step(bytes, &mut at, most, &mut lines);
            length += lines[known..].iter().map(|line| line.text.len()).sum::<usize>();
        }
        (!lines.is_empty()).then_some(Outcome::Lines(path, lines))
    }

    fn open(&self, directory: &Directory, name: &str, path: &str) -> Result<File, Fault> {
        let place = place_below(self.place, path);
        let Some(descriptor) = &directory.descriptor else { return files::open(&place).map(File::from) };
        check_path(&place.path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = rustix::fs::openat(descriptor, name, flags, Mode::empty());
        opened.map(File::from).map_err(|error| fault(&error.into(), path))
    }

    /// Reads a file to the start of a buffer. Returns nothing for one that is too large, or no file any more, else its
    /// length. A large one is the only one in memory as long as the guard exists.
    fn read(&self, mut file: File, buffer: &mut Vec<u8>) -> io::Result<Option<(usize, Option<One<'_>>)>> {
        let stat = rustix::fs::fstat(&file)?;
        let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
        let most = usize::try_from(self.search.max_file_size).unwrap_or(usize::MAX);
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || size > most {
            return Ok(None);
        }
        let one = (size > LARGE).then(|| self.large.lock().unwrap_or_else(PoisonError::into_inner));
        if buffer.len() > LARGE && size <= LARGE {
            *buffer = Vec::new();
        }
        // Files of /proc report a size of 0.
        let step = if size == 0 { UNSIZED } else { size + 1 };
        let mut read = 0;
        while read <= most {
            if buffer.len() < read + step {
                buffer.resize(read + step, 0);
            }
            match file.read(&mut buffer[read..read + step]) {
                Ok(length) => {
                    read += length;
                    if length == 0 || (size > 0 && length < step) {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((read <= most).then_some((read, one)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
