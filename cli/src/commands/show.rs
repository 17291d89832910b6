//! Where output goes: results to standard output, findings to standard error.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::finding::Findings;
use crate::output::{self, github};

/// Prints to standard output.
pub(super) fn out(text: &str) {
    told(text);
}

/// Prints to standard output; whether anybody still reads it. A reader that has gone away is no reason to fail, but
/// output that is lost for another cause is.
pub(super) fn told(text: &str) -> bool {
    told_to(&mut anstream::stdout(), text)
}

/// The same for what is data to the last byte: a stream that takes colours out would take control characters with them.
pub(super) fn data(text: &str) {
    told_to(&mut std::io::stdout().lock(), text);
}

fn told_to(stdout: &mut impl Write, text: &str) -> bool {
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => false,
        Err(error) => {
            err(&format!("error: standard output cannot be written: {error}\n"));
            std::process::exit(1)
        }
    }
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

/// Prints text for people and what was found, and then the findings as annotations of GitHub Actions.
///
/// All of it goes to standard output: the runner reads the two streams independently, and the order matters.
pub(super) fn github(text: &str, project: &Path, findings: &Findings) {
    let found = output::findings::render(findings, false, width());
    let text = format!("{text}{found}{}", output::human::verdict(findings));
    out(&github::quoted(&text, &Uuid::new_v4().to_string()));
    out(&github::annotations(findings, &absolute(project), &workspace()));
}

/// The directory that the runner takes relative files to be in.
pub(super) fn workspace() -> PathBuf {
    let named = std::env::var_os("GITHUB_WORKSPACE").filter(|dir| !dir.is_empty());
    absolute(&named.map_or_else(|| PathBuf::from("."), PathBuf::from))
}

/// A directory without symbolic links, so that two of them compare; one that does not exist stays as it is.
pub(super) fn absolute(dir: &Path) -> PathBuf {
    fs_err::canonicalize(dir).unwrap_or_else(|_| dir.to_owned())
}

/// Columns of the terminal: `COLUMNS`, or what the terminal says.
fn width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = || terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
    // A width that nobody has would overflow the renderer's sums.
    told.or_else(asked).filter(|width| (40..=1000).contains(width)).unwrap_or(100)
}
