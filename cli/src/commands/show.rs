//! Prints results to standard output and findings to standard error.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use koze_core::sandbox::process::Stream;
use uuid::Uuid;

use crate::finding::Findings;
use crate::output::{self, github};
use crate::paths;

/// Prints to standard output.
pub(super) fn out(text: &str) {
    told(text);
}

/// Prints to standard output and returns whether the reader is still there. A closed pipe is no failure; any other
/// write error is.
///
/// It prints byte for byte: results have no colors, and a stream that strips colors would remove control characters.
pub(super) fn told(text: &str) -> bool {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => false,
        Err(error) => {
            err(&format!("error: standard output cannot be written: {error}\n"));
            std::process::exit(1)
        }
    }
}

/// Prints what a program has printed to the same stream, byte for byte.
///
/// # Errors
/// Returns the error of the stream: its reader may need no more.
pub(super) fn print_output(bytes: &[u8], stream: Stream) -> io::Result<()> {
    match stream {
        Stream::Stdout => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(bytes)?;
            stdout.flush()
        }
        Stream::Stderr => io::stderr().lock().write_all(bytes),
    }
}

/// Prints to standard error.
pub(super) fn err(text: &str) {
    let _ = anstream::stderr().write_all(text.as_bytes());
}

/// Prints an error and returns the exit code of a failure.
pub(super) fn failure(why: &str) -> ExitCode {
    err(&format!("error: {why}\n"));
    ExitCode::FAILURE
}

/// Prints what is wrong with the arguments or the input, and returns the exit code for it.
pub(super) fn usage(why: &str) -> ExitCode {
    failure(why);
    ExitCode::from(2)
}

/// Prints the error of a tool or a sandbox and returns the exit code.
pub(super) fn failed(error: &koze_core::Error) -> ExitCode {
    err(&format!("error[{}]: {}\n", error.code, error.message));
    ExitCode::FAILURE
}

/// Prints the findings and their number to standard error.
pub(super) fn findings(findings: &Findings) {
    if findings.iter().next().is_none() {
        return;
    }
    // The stream strips the colors if standard error is no terminal.
    let text = output::findings::render(findings, true, terminal_width());
    let mut stderr = anstream::stderr();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.write_all(output::human::verdict(findings).as_bytes());
}

/// Prints text and findings for people, and then the findings as annotations of GitHub Actions.
///
/// All of it goes to standard output: the runner reads the two streams independently, and the order matters.
pub(super) fn github(text: &str, project: &Path, findings: &Findings) {
    let found = output::findings::render(findings, false, terminal_width());
    let text = format!("{text}{found}{}", output::human::verdict(findings));
    out(&github::quoted(&text, &Uuid::new_v4().to_string()));
    out(&github::annotations(findings, &absolute(project), &workspace()));
}

/// Returns the directory to which the runner resolves relative paths.
pub(super) fn workspace() -> PathBuf {
    let named = std::env::var_os("GITHUB_WORKSPACE").filter(|dir| !dir.is_empty());
    absolute(&named.map_or_else(|| PathBuf::from("."), PathBuf::from))
}

/// Resolves the symbolic links of a directory, so that directories can be compared. Keeps one that does not exist.
pub(super) fn absolute(dir: &Path) -> PathBuf {
    paths::canonical(dir).unwrap_or_else(|_| dir.to_owned())
}

/// Returns the width of the terminal: `COLUMNS`, or the terminal's own answer.
fn terminal_width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = || terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
    // Absurd widths would overflow the renderer's arithmetic.
    told.or_else(asked).filter(|width| (40..=1000).contains(width)).unwrap_or(100)
}
