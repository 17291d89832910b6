//! Files, signals and exit codes on Unix.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use fs_err::os::unix::fs::OpenOptionsExt as _;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{self, SignalKind};

use crate::trust;

/// The error number of a full disk.
#[cfg(debug_assertions)]
pub(crate) const DISK_FULL: i32 = Errno::NOSPC.raw_os_error();

/// Ends this process without any cleanup.
#[cfg(debug_assertions)]
pub(crate) fn kill() -> ! {
    let _ = kill_process(rustix::process::getpid(), Signal::KILL);
    unreachable!("SIGKILL cannot be caught")
}

/// Gives a temporary file the permissions of a new file of the user; the umask applies.
pub(crate) fn like_new_file(builder: &mut tempfile::Builder) {
    builder.permissions(Permissions::from_mode(0o666));
}

/// Gives a temporary directory the permissions of a new directory of the user; the umask applies.
pub(crate) fn like_new_directory(builder: &mut tempfile::Builder) {
    builder.permissions(Permissions::from_mode(0o777));
}

/// Opens the file whose lock is the lock of a directory: the directory itself.
pub(crate) fn directory_lock(dir: &Path) -> io::Result<File> {
    fs_err::File::open(dir).map(fs_err::File::into_file)
}

/// Opens a file to read it. Does not wait for data: a pipe without a writer is empty.
pub(crate) fn open_input(path: &Path) -> io::Result<fs_err::File> {
    let mut options = fs_err::OpenOptions::new();
    options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    options.open(path)
}

/// Returns the directory for the state of this user's programs: `$XDG_STATE_HOME` or `~/.local/state`.
pub(crate) fn state_home() -> Option<PathBuf> {
    let named = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|dir| dir.is_absolute());
    named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))
}

/// Checks that a directory belongs to this user alone, as far as it exists.
pub(crate) fn check_private(dir: &Path) -> io::Result<()> {
    trust::way_to(dir).map_err(|why| io::Error::new(io::ErrorKind::PermissionDenied, why.fact()))
}

/// Creates a directory and its missing parents for this user alone.
pub(crate) fn create_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Returns the file that runs the program `name` in a directory, if there is one.
pub(crate) fn executable(dir: &Path, name: &str) -> Option<PathBuf> {
    Some(dir.join(name)).filter(|path| path.is_file())
}

/// Returns whether an error means that a symbolic link leads to itself.
pub(crate) fn is_link_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Returns the exit code that a shell reports: 128 + n after signal n.
pub(crate) fn to_exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// The signals that end a program, to be forwarded to another one.
pub(crate) struct Signals([(Signal, unix::Signal); 3]);

impl Signals {
    /// Receives the signals from now on.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Signals([
            (Signal::INT, unix::signal(SignalKind::interrupt())?),
            (Signal::TERM, unix::signal(SignalKind::terminate())?),
            (Signal::HUP, unix::signal(SignalKind::hangup())?),
        ]))
    }

    /// Forwards the next signal to a process. The terminal itself delivers Ctrl-C to it.
    pub(crate) async fn pass(&mut self, id: Option<u32>) {
        let [(_, interrupt), (_, terminate), (_, hang_up)] = &mut self.0;
        let signal = tokio::select! {
            _ = interrupt.recv() => Signal::INT,
            _ = terminate.recv() => Signal::TERM,
            _ = hang_up.recv() => Signal::HUP,
        };
        let id = id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id.filter(|_| signal != Signal::INT || !io::stdin().is_terminal()) {
            let _ = kill_process(id, signal);
        }
    }
}
