//! How far a copy is, and whether it was interrupted.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

/// How much is copied between two updates.
const STEP: u64 = 16 << 20;

/// Counts the bytes of a copy, and shows them on a terminal. Clones are the same meter.
#[derive(Debug, Clone)]
pub(super) struct Meter {
    bar: ProgressBar,
    is_stopped: Arc<AtomicBool>,
}

impl Meter {
    /// Creates a meter for a number of bytes, if it is known.
    pub(super) fn new(length: Option<u64>) -> Self {
        let bar = match length {
            // It would disappear too soon to be seen.
            Some(length) if length <= STEP => ProgressBar::hidden(),
            Some(length) => ProgressBar::new(length),
            None => ProgressBar::new_spinner(),
        };
        let template = match length {
            Some(_) => "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            None => "{spinner} {bytes} {bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Meter { bar, is_stopped: Arc::new(AtomicBool::new(false)) }
    }

    /// Counts bytes that an earlier copy has copied.
    pub(super) fn skip(&self, count: u64) {
        self.bar.set_position(count);
        self.bar.reset_eta();
    }

    /// Lets the copy fail.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Removes the meter from the terminal.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Copies what is left of a file, at most `room` bytes. Returns `None` if there is more. The kernel copies between regular
    /// files itself.
    pub(super) fn copy(&self, from: &File, to: &File, room: u64) -> io::Result<Option<u64>> {
        let (mut copied, mut to) = (0, to);
        loop {
            self.check_stopped()?;
            // One byte more than there is room for would show that there is more.
            let limit = STEP.min((room - copied).saturating_add(1));
            let count = io::copy(&mut from.take(limit), &mut to)?;
            copied += count;
            self.bar.inc(count);
            if copied > room {
                return Ok(None);
            }
            if count < limit {
                return Ok(Some(copied));
            }
        }
    }

    fn check_stopped(&self) -> io::Result<()> {
        if self.is_stopped.load(Ordering::Acquire) {
            return Err(io::Error::other("the copy was interrupted"));
        }
        Ok(())
    }
}

/// A stream whose bytes a meter counts.
#[derive(Debug)]
pub(super) struct Metered<T> {
    pub(super) stream: T,
    pub(super) meter: Meter,
}

impl<T: Read> Read for Metered<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.meter.check_stopped()?;
        let count = self.stream.read(bytes)?;
        self.meter.bar.inc(count as u64);
        Ok(count)
    }
}

impl<T: Write> Write for Metered<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.meter.check_stopped()?;
        let count = self.stream.write(bytes)?;
        self.meter.bar.inc(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
