//! Compares sandboxes on this machine with other tools that isolate a command. `local/benches` and
//! `tests/bench/mcp.mjs` measure; this module reports.

use std::fmt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::project::Project;
use crate::{Result, process};

/// A measurement in microseconds, and that of its peer in the same interleaved runs.
struct Row {
    case: String,
    times: Vec<f64>,
    peer: String,
    peer_times: Vec<f64>,
}

/// The results.
#[derive(Default)]
pub(super) struct Report {
    /// The heading of the numbers.
    about: &'static str,
    rows: Vec<Row>,
    notes: Vec<String>,
}

pub(super) fn run(root: &Path, koze: &Path, dir: &Path, quick: bool) -> Result<Report> {
    let mut report = Report::of("Sandboxes on this machine, interleaved with their peers");
    eprintln!("bench: sandboxes on this machine");
    for part in ["local", "workspace", "egress"] {
        report.add(&measured(root, part, quick, &[])?)?;
    }
    eprintln!("bench: MCP");
    let project = Project::new(&dir.join("mcp"), 1, 0);
    project.restore()?;
    let koze_in = |args: &[&str]| {
        let mut command = Command::new(koze);
        command.args(args).arg("--project").arg(project.dir());
        process::stdout(&mut command, "see what it said above")
    };
    koze_in(&["build"])?;
    let state = dir.join("state");
    let tests = root.join("tests");
    let mut node = Command::new(tests.join("node_modules/.bin/node"));
    node.arg("bench/mcp.mjs").arg(koze).arg(project.dir()).arg(&state).arg(if quick { "50" } else { "500" });
    node.current_dir(&tests).env("KOZE_SUPERVISOR_IDLE_MS", "1");
    let measured = process::stdout(&mut node, "run `cargo xtask setup`");
    // The supervisor exits when no sandbox runs.
    koze_in(&["destroy", "--all", "--state", &state.to_string_lossy()])?;
    report.add(&measured?)?;
    eprintln!("bench: koze cp");
    report.add(&super::copies::run(koze, dir, quick)?.to_string())?;
    Ok(report)
}

/// Runs a benchmark of `koze-local`. Returns what it prints.
pub(super) fn measured(root: &Path, part: &str, quick: bool, arguments: &[&Path]) -> Result<String> {
    let mut bench = process::cargo(root);
    bench.args(["bench", "--package", "koze-local", "--bench", part, "--"]);
    if quick {
        bench.arg("--quick");
    }
    bench.args(arguments);
    process::stdout(&mut bench, "see what it said above")
}

impl Report {
    /// Creates an empty report.
    pub(super) fn of(about: &'static str) -> Self {
        Report { about, ..Report::default() }
    }

    /// Adds the output of a benchmark program.
    pub(super) fn add(&mut self, printed: &str) -> Result<()> {
        let found: Value = serde_json::from_str(printed)?;
        let numbers = |value: &Value| {
            value.as_array().into_iter().flatten().filter_map(Value::as_f64).collect::<Vec<_>>()
        };
        for row in found["rows"].as_array().into_iter().flatten() {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let (times, peer_times) = (numbers(&row["us"]), numbers(&row["peer_us"]));
            self.rows.push(Row { case: text("case"), times, peer: text("peer"), peer_times });
        }
        self.notes.extend(
            found["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned),
        );
        Ok(())
    }

    /// Adds a note for the reader of the numbers.
    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Returns the numbers as JSON, with times in microseconds.
    pub(super) fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "case": row.case, "runs": row.times.len(), "median_us": median(&row.times),
                    "peer": row.peer, "peer_median_us": median(&row.peer_times), "ratio_to_peer": row.ratio(),
                })
            })
            .collect();
        json!({ "rows": rows, "notes": self.notes })
    }
}

impl Row {
    /// Returns the ratio of the medians, if the peer ran.
    fn ratio(&self) -> Option<f64> {
        Some(median(&self.times)? / median(&self.peer_times)?)
    }
}

/// Returns the median, or `None` without times.
fn median(times: &[f64]) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}. Medians in µs; `ratio` is over the peer's.\n", self.about)?;
        writeln!(
            f,
            "{:<34}{:>6}{:>12}  {:<26}{:>12}{:>8}",
            "what", "runs", "median", "peer", "median", "ratio"
        )?;
        for row in &self.rows {
            let shown = |value: Option<f64>, digits| {
                value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
            };
            writeln!(
                f,
                "{:<34}{:>6}{:>12}  {:<26}{:>12}{:>8}",
                row.case,
                row.times.len(),
                shown(median(&row.times), 0),
                row.peer,
                shown(median(&row.peer_times), 0),
                shown(row.ratio(), 3),
            )?;
        }
        for note in &self.notes {
            writeln!(f, "Note: {note}.")?;
        }
        Ok(())
    }
}
