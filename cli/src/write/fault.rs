//! Fault injection, for tests of crashes and full disks.
//!
//! Every operation that changes the disk passes a point; the points of a run are numbered from 1. With
//! `KOZE_FAULT=kill@N`, the program exits at point N as if killed by `kill -9`; with `error@N`, that operation fails as
//! on a full disk. Builds without `debug_assertions`, such as releases, do not contain this.

use std::io;
use std::path::Path;

/// Passes a point, before the operation.
#[cfg(debug_assertions)]
pub(super) fn point(what: &str, path: &Path) -> io::Result<()> {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::platform;

    static PASSED: AtomicUsize = AtomicUsize::new(0);
    let number = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    let Some(fault) = std::env::var("KOZE_FAULT").ok() else { return Ok(()) };
    let (kind, at) = fault.split_once('@').expect("KOZE_FAULT is kill@N or error@N");
    if at.parse() != Ok(number) {
        return Ok(());
    }
    eprintln!("fault {fault}: {what} {}", path.display());
    match kind {
        "kill" => platform::kill(),
        "error" => Err(io::Error::from_raw_os_error(platform::DISK_FULL)),
        _ => panic!("KOZE_FAULT is kill@N or error@N"),
    }
}

/// Does nothing in builds without `debug_assertions`.
#[cfg(not(debug_assertions))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as with faults")]
pub(super) fn point(_what: &str, _path: &Path) -> io::Result<()> {
    Ok(())
}
