//! Searches the files of a tree. One thread walks the tree and hands out its files in batches; it and a few others
//! search them. The results are in the order of the walk, whichever thread found
//! them.

mod batch;
#[cfg(test)]
mod tests;
mod walk;
mod work;

use std::fs::File;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use koze_protocol::search::{End, Matcher, Search, Searched};

use self::batch::{Batch, Item};
use self::walk::Walk;
use self::work::{Stop, Work};
use crate::files;
use crate::message::{Code, Fault, Place};

/// How many threads search at most.
const MAX_THREADS: usize = 4;

/// Searches a file, or the files of a directory without following links. Ends early when `is_stopped` returns true.
///
/// # Errors
/// [`Code::InvalidInput`] for an invalid pattern, and those of the kernel for the start of the search.
pub(crate) fn search(
    place: &Place,
    search: &Search,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Searched, Fault> {
    let matcher = Matcher::new(search)
        .map_err(|error| Fault::new(Code::InvalidInput, format!("the pattern: {error}")))?;
    let until = Instant::now() + Duration::from_millis(search.timeout_ms.into());
    let stop = Stop { is_stopped, until };
    let work = Work::new(place, search, &matcher, &stop);
    let end = match Walk::start(place, search) {
        Ok(walk) => search_all(&work, walk),
        Err(fault) if fault.why == Code::NotADirectory => search_one(&work, place).map(|()| End::Complete),
        Err(fault) => Err(fault),
    };
    work.finish(end?)
}

/// Searches the start itself, which is a file.
fn search_one(work: &Work<'_>, place: &Place) -> Result<(), Fault> {
    let file = File::from(files::open(place)?);
    let name = place.path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if work.matcher.includes(name) {
        work.add(Batch::of(Item::Opened(file)));
        work.no_more();
    }
    Ok(())
}

fn search_all(work: &Work<'_>, mut walk: Walk<'_>) -> Result<End, Fault> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    thread::scope(|scope| {
        for _ in 1..threads {
            // Without other threads, this one searches everything.
            let _ = thread::Builder::new().spawn_scoped(scope, || work.help());
        }
        let ended = hand_out(work, &mut walk);
        work.no_more();
        ended
    })
}

/// Hands out all files. Returns why there are no more.
fn hand_out(work: &Work<'_>, walk: &mut Walk<'_>) -> Result<End, Fault> {
    let mut batch = Batch::default();
    let end = loop {
        if work.is_over() {
            break End::Complete;
        }
        match walk.next() {
            Ok(Some(item)) => {
                let is_wanted = match &item {
                    Item::File { directory, name } => work.matcher.includes(&directory.below(name)),
                    _ => true,
                };
                if is_wanted {
                    batch.push(item);
                }
                if batch.is_full() {
                    work.add(std::mem::take(&mut batch));
                }
            }
            Ok(None) => break End::Complete,
            Err(walk::Failed::TooMany) => break End::TooMany,
            Err(walk::Failed::Fault(fault)) => return Err(fault),
        }
    };
    work.add(batch);
    Ok(end)
}
