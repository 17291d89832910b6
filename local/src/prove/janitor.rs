//! Removes the files of a proof, even if its program is killed: a separate process waits for its end.
#![allow(unsafe_code, reason = "shared memory of System V's kind has no safe form")]

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use crate::host::removal;

/// The argument that makes this program a janitor; the directory follows.
pub(super) const JANITOR: &str = "--koze-proof-janitor";
/// How often it tries, and how long it waits in between: sandboxes that are ending may still write.
const MAX_ATTEMPTS: usize = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// A directory that is removed when this is dropped, or when its program ends.
pub(super) struct Janitor(Child);

impl Janitor {
    /// Starts a process that waits for the end of this one.
    pub(super) fn start(dir: &Path) -> io::Result<Self> {
        let mut child = Command::new("/proc/self/exe")
            .arg(JANITOR)
            .arg(dir)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        // After that, signals from a terminal do not reach it.
        let mut ready = [0];
        match child.stdout.take() {
            Some(mut stdout) => stdout.read_exact(&mut ready)?,
            None => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        Ok(Janitor(child))
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Runs the janitor process.
pub(super) fn run() -> ExitCode {
    let _ = rustix::process::setsid();
    let Some(dir) = std::env::args_os().nth(2).map(PathBuf::from) else { return ExitCode::from(2) };
    let told = io::stdout().write_all(b".").and_then(|()| io::stdout().flush());
    if told.is_ok() {
        let _ = io::stdin().read_to_end(&mut Vec::new());
    }
    if let Some(memory) = fs::read_to_string(memory(&dir)).ok().and_then(|id| id.parse().ok()) {
        remove_memory(memory);
    }
    for _ in 0..MAX_ATTEMPTS {
        let _ = removal::remove_directory(&dir);
        if !dir.exists() {
            return ExitCode::SUCCESS;
        }
        std::thread::sleep(PAUSE);
    }
    ExitCode::FAILURE
}

fn memory(dir: &Path) -> PathBuf {
    dir.join("shared-memory")
}

/// Records a shared memory segment, to be removed with the directory.
pub(super) fn note_memory(dir: &Path, id: libc::c_int) -> io::Result<()> {
    fs::write(memory(dir), id.to_string())
}

pub(super) fn remove_memory(id: libc::c_int) {
    // SAFETY: marks the segment, which is not mapped, for removal.
    unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
}
