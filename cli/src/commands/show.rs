//! Where output goes: results to standard output, findings to standard error.

use std::io::Write as _;

use crate::finding::Findings;
use crate::output;

/// Prints to standard output. A reader that has gone away is no reason to fail.
pub(super) fn out(text: &str) {
    let _ = anstream::stdout().write_all(text.as_bytes());
}

/// Prints to standard error.
pub(super) fn err(text: &str) {
    let _ = anstream::stderr().write_all(text.as_bytes());
}

/// Prints what was found, and how much it was, to standard error.
pub(super) fn findings(findings: &Findings) {
    if findings.iter().next().is_none() {
        return;
    }
    // The stream takes the colours out again where nobody sees them.
    let text = output::findings::render(findings, true, width());
    let mut stderr = anstream::stderr();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.write_all(output::human::verdict(findings).as_bytes());
}

/// Columns of the terminal: `COLUMNS`, or what the terminal says.
fn width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = || terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
    // A width that nobody has would overflow the renderer's sums.
    told.or_else(asked).filter(|width| (40..=1000).contains(width)).unwrap_or(100)
}
