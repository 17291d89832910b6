//! Files, signals and exit codes on Windows.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use sha2::{Digest as _, Sha256};

/// `ERROR_DISK_FULL`.
#[cfg(debug_assertions)]
pub(crate) const DISK_FULL: i32 = 112;

/// Ends this process without any cleanup.
#[cfg(debug_assertions)]
pub(crate) fn kill() -> ! {
    std::process::exit(137)
}

/// Does nothing: a new file inherits the permissions of its directory.
pub(crate) fn like_new_file(_: &mut tempfile::Builder) {}

/// Does nothing: a new directory inherits the permissions of its parent.
pub(crate) fn like_new_directory(_: &mut tempfile::Builder) {}

/// Opens the file whose lock is the lock of a directory. Windows cannot lock a directory, and a file in it would be one
/// more file in the user's project, so the file is in the user's temporary directory.
pub(crate) fn directory_lock(dir: &Path) -> io::Result<File> {
    let dir = dunce::canonicalize(dir)?;
    let name = Sha256::digest(dir.as_os_str().as_encoded_bytes());
    let name: String = name.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let path = std::env::temp_dir().join(format!("koze-{name}.lock"));
    fs_err::OpenOptions::new().create(true).append(true).open(path).map(fs_err::File::into_file)
}

/// Opens a file to read it.
pub(crate) fn open_input(path: &Path) -> io::Result<fs_err::File> {
    fs_err::File::open(path)
}

/// Returns the directory for the data of this user's programs on this machine.
pub(crate) fn state_home() -> Option<PathBuf> {
    std::env::var_os("LOCALAPPDATA").map(PathBuf::from).filter(|dir| dir.is_absolute())
}

/// Does nothing: only this user can write to the directories of the user's profile.
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on Unix")]
pub(crate) fn check_private(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Creates a directory and its missing parents.
pub(crate) fn create_private(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)
}

/// Returns the file that runs the program `name` in a directory, if there is one. npm writes `.cmd` files, next to
/// scripts for other shells that have no suffix.
pub(crate) fn executable(dir: &Path, name: &str) -> Option<PathBuf> {
    ["exe", "cmd"].iter().map(|suffix| dir.join(format!("{name}.{suffix}"))).find(|path| path.is_file())
}

/// Returns whether an error means that a symbolic link leads to itself: `ERROR_CANT_RESOLVE_FILENAME`.
pub(crate) fn is_link_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(1921)
}

/// Returns the exit code, if it fits into one of this program.
pub(crate) fn to_exit_code(status: ExitStatus) -> ExitCode {
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Ctrl-C, which ends a program.
pub(crate) struct Signals;

impl Signals {
    /// Takes Ctrl-C from its default handler.
    #[expect(clippy::unnecessary_wraps, reason = "the same signature as on Unix")]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Signals)
    }

    /// Does nothing: the console delivers Ctrl-C to all of its processes, and koze waits for the other one to exit.
    pub(crate) async fn pass(&mut self, _: Option<u32>) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
