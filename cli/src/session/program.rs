//! The program that runs as a command and as the supervisor that the command starts.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::provider::EngineKind;

/// The line that a supervisor prints when it listens.
pub(super) const READY: &str = "ready";
/// The variable for the idle timeout of a supervisor, in milliseconds.
pub(super) const IDLE: &str = "KOZE_SUPERVISOR_IDLE_MS";

/// Identifies this program, with the engine of the sandboxes that it supervises.
pub(super) fn program_for(engine: Option<EngineKind>) -> String {
    let engine = engine.map_or(String::new(), |engine| format!(" {engine}"));
    format!("{}{engine}", program())
}

/// Returns the path with which this program is started again. On Linux it leads to the same file also after an upgrade.
#[cfg(namespaces)]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as without namespaces")]
pub(super) fn own_path() -> io::Result<PathBuf> {
    Ok(PathBuf::from("/proc/self/exe"))
}

/// Returns the path with which this program is started again.
#[cfg(not(namespaces))]
pub(super) fn own_path() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// Identifies this program: its version, and the file it was started from, which an upgrade may have replaced.
fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let version = env!("CARGO_PKG_VERSION");
        match own_path().and_then(std::fs::metadata) {
            Ok(file) => {
                format!("{version} {}:{}:{}:{}", file.dev(), file.ino(), file.mtime(), file.mtime_nsec())
            }
            Err(_) => version.to_owned(),
        }
    })
}
