//! Measures the Worker of a new project: the size of its upload, and the time of a tool call, next to two Workers
//! written by hand over the same in-process class, in `tests/bench/worker`.

pub(super) mod built;

use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

use self::built::Built;
use crate::{Result, process};

/// The results.
pub(super) struct Report {
    uploads: Vec<Upload>,
    rows: Vec<Row>,
}

/// The size of an upload in KiB, as wrangler reports it.
pub(super) struct Upload {
    what: &'static str,
    raw: f64,
    pub(super) gzipped: f64,
}

/// A tool, the Worker by hand (`http` or `mcp`) to compare with, and the times of calls in microseconds: through the
/// Rust Worker, and through the other one.
struct Row {
    tool: String,
    peer: String,
    times: Vec<f64>,
    by_hand: Vec<f64>,
}

pub(super) fn run(root: &Path, koze: &Path, quick: bool) -> Result<Report> {
    eprintln!("bench: the Worker of a new project");
    let built = Built::new(root, koze)?;
    let read = Built::with_credentials(root, koze)?;
    let uploads = vec![
        Upload::read("with the SDK and the guest", &built.dry_run(true)?)?,
        Upload::read("without the SDK", &built.dry_run(false)?)?,
        Upload::read("without both", &built.dry_run_bare()?)?,
        Upload::read("the same with credentials", &read.dry_run_bare()?)?,
    ];
    built.write_benchmark()?;
    eprintln!("bench: calls through it");
    let mut node = built.tool("node")?;
    node.arg(root.join("tests/bench/worker/run.mjs"));
    node.arg(built.dir()).arg(if quick { "2000" } else { "10000" });
    let printed: Value = serde_json::from_str(&process::stdout(&mut node, built::SETUP)?)?;
    let rows = printed["rows"].as_array().into_iter().flatten().map(Row::read).collect();
    Ok(Report { uploads, rows })
}

impl Upload {
    /// Reads the size from the output of wrangler.
    pub(super) fn read(what: &'static str, printed: &str) -> Result<Self> {
        let sizes = printed.lines().find_map(|line| {
            line.strip_prefix("Total Upload: ")?.strip_suffix(" KiB")?.split_once(" KiB / gzip: ")
        });
        let (raw, gzipped) = sizes.ok_or_else(|| format!("wrangler tells no size:\n{printed}"))?;
        Ok(Upload { what, raw: raw.parse()?, gzipped: gzipped.parse()? })
    }
}

impl Report {
    /// Returns the numbers as JSON, with times in microseconds.
    pub(super) fn json(&self) -> Value {
        let uploads = self.uploads.iter().map(
            |upload| json!({ "what": upload.what, "raw_kib": upload.raw, "gzipped_kib": upload.gzipped }),
        );
        let rows = self.rows.iter().map(|row| {
            json!({
                "tool": row.tool, "by_hand": row.peer, "runs": row.times.len(), "median_us": median(&row.times),
                "by_hand_median_us": median(&row.by_hand), "added_us": row.added(), "ratio": row.ratio(),
            })
        });
        json!({ "uploads": uploads.collect::<Vec<_>>(), "rows": rows.collect::<Vec<_>>() })
    }
}

impl Row {
    fn read(row: &Value) -> Self {
        let numbers =
            |key: &str| row[key].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        Row { tool: text("case"), peer: text("peer"), times: numbers("us"), by_hand: numbers("peer_us") }
    }

    fn added(&self) -> f64 {
        median(&self.times) - median(&self.by_hand)
    }

    fn ratio(&self) -> f64 {
        median(&self.times) / median(&self.by_hand)
    }
}

/// Returns the median, or NaN without times.
fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nThe upload of a new project's Worker, in KiB.\n")?;
        writeln!(f, "{:<28}{:>10}{:>12}", "what", "raw", "gzipped")?;
        for upload in &self.uploads {
            writeln!(f, "{:<28}{:>10.0}{:>12.0}", upload.what, upload.raw, upload.gzipped)?;
        }
        writeln!(
            f,
            "\nA tool call in workerd, compared with a handwritten Worker over the same class, interleaved. Medians in µs.\n\
             `http` is a route of the Worker, by hand without any library; `mcp` is the Model Context Protocol over HTTP, by hand \
             with its official SDK.\n"
        )?;
        writeln!(
            f,
            "{:<22}{:>6}{:>6}{:>10}{:>10}{:>8}{:>8}",
            "tool", "over", "runs", "Rust", "by hand", "added", "ratio"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:<22}{:>6}{:>6}{:>10.0}{:>10.0}{:>8.0}{:>8.3}",
                row.tool,
                row.peer,
                row.times.len(),
                median(&row.times),
                median(&row.by_hand),
                row.added(),
                row.ratio(),
            )?;
        }
        Ok(())
    }
}
