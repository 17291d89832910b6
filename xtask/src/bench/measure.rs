//! Measures the time of whole processes.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Result, process};

/// The times of one command, in the order of its runs.
#[derive(Default)]
pub(super) struct Samples(Vec<Duration>);

impl Samples {
    pub(super) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn min(&self) -> Duration {
        self.0.iter().min().copied().unwrap_or_default()
    }

    pub(super) fn max(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }

    /// Returns the middle sample, or the mean of the middle two.
    pub(super) fn median(&self) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        match (sorted.len(), sorted.len() / 2) {
            (0, _) => Duration::ZERO,
            (count, middle) if count % 2 == 1 => sorted[middle],
            (_, middle) => (sorted[middle - 1] + sorted[middle]) / 2,
        }
    }
}

/// Measures a process from spawn to exit. A failed run is an error with its output, never a sample.
pub(super) fn time(command: &mut Command) -> Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let output = command
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .map_err(|error| format!("`{}` could not be run: {error}", process::line(command)))?;
    let time = start.elapsed();
    if output.status.success() {
        return Ok(time);
    }
    Err(format!(
        "`{}` failed ({}):\n{}",
        process::line(command),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    )
    .into())
}
