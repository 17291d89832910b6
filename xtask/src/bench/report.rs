//! Reports the numbers as a table and as JSON.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::measure::Samples;
use super::peers;
use super::project::Project;

pub(super) const COLD: &str = "koze build, cold";
pub(super) const IDLE: &str = "koze build, nothing to do";
/// The name of the same command measured again, next to the slow peer.
pub(super) const IDLE_AGAIN: &str = "koze build, nothing to do (beside wrangler)";

pub(super) const WATCH: &str = "koze build --watch, save to written";
pub(super) const WATCH_REST: &str = "the same without the debounce";

/// The measurement of a command on a project.
pub(super) struct Row {
    sandboxes: usize,
    environments: usize,
    case: &'static str,
    samples: Samples,
    /// The peer's median in the same interleaved runs.
    peer: Duration,
}

impl Row {
    pub(super) fn new(project: &Project, case: &'static str, samples: Samples, peer: Duration) -> Self {
        let (sandboxes, environments) = (project.sandboxes(), project.environments());
        Self { sandboxes, environments, case, samples, peer }
    }

    /// Formats the size: `1000`, or `1000×5` with environments.
    fn size(&self) -> String {
        match self.environments {
            0 => self.sandboxes.to_string(),
            environments => format!("{}×{environments}", self.sandboxes),
        }
    }

    fn ratio(&self) -> f64 {
        self.samples.median().as_secs_f64() / self.peer.as_secs_f64()
    }

    fn json(&self) -> Value {
        json!({
            "sandboxes": self.sandboxes,
            "environments": self.environments,
            "case": self.case,
            "runs": self.samples.len(),
            "median_ms": millis(self.samples.median()),
            "min_ms": millis(self.samples.min()),
            "max_ms": millis(self.samples.max()),
            "ratio_to_peer": self.ratio(),
        })
    }
}

/// The results of a benchmark run.
pub(super) struct Report {
    cores: usize,
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl Report {
    pub(super) fn new() -> Self {
        Self {
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds a note for the reader of the numbers.
    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Returns the numbers as JSON, with times in milliseconds.
    pub(super) fn json(&self) -> Value {
        let growth: Vec<Value> = [COLD, IDLE, peers::CARGO_METADATA]
            .into_iter()
            .filter_map(|case| Some(json!({ "case": case, "us_per_sandbox": self.growth(case)? })))
            .collect();
        json!({
            "machine": { "os": std::env::consts::OS, "arch": std::env::consts::ARCH, "cores": self.cores },
            "rows": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
            "growth": growth,
            "notes": self.notes,
        })
    }

    /// Returns the cost of another sandbox in microseconds, between 10 and 1000 sandboxes.
    fn growth(&self, case: &str) -> Option<f64> {
        let median = |sandboxes| {
            self.rows
                .iter()
                .find(|row| (row.sandboxes, row.environments) == (sandboxes, 0) && row.case == case)
                .map(|row| row.samples.median().as_secs_f64())
        };
        Some((median(1000)? - median(10)?) / 990.0 * 1e6)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Whole processes, spawn to exit, interleaved; {} {} with {} cores. Times in ms.\n\
             A size of 1000×5 has five named environments. `ratio` is the median over that of the peer in the same runs: `{}`, or `{}` if stated below.\n",
            std::env::consts::OS,
            std::env::consts::ARCH,
            self.cores,
            peers::CARGO_METADATA,
            peers::WRANGLER_TYPES,
        )?;
        writeln!(
            f,
            "{:>9}  {:<44}{:>5}{:>10}{:>21}{:>8}",
            "sandboxes", "command", "runs", "median", "min–max", "ratio"
        )?;
        for row in &self.rows {
            let range = format!("{:.1}–{:.1}", millis(row.samples.min()), millis(row.samples.max()));
            writeln!(
                f,
                "{:>9}  {:<44}{:>5}{:>10.1}{range:>21}{:>8.3}",
                row.size(),
                row.case,
                row.samples.len(),
                millis(row.samples.median()),
                row.ratio(),
            )?;
        }
        writeln!(f, "\nGrowth for each sandbox, (median(1000) - median(10)) / 990:")?;
        for case in [COLD, IDLE, peers::CARGO_METADATA] {
            if let Some(growth) = self.growth(case) {
                writeln!(f, "{:>9}  {case:<44}{growth:>12.1} µs", "")?;
            }
        }
        for note in &self.notes {
            writeln!(f, "Note: {note}.")?;
        }
        Ok(())
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
