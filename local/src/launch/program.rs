//! The program of a sandbox's first process: a sealed in-memory copy of the current program.
//!
//! Until a child of the guest calls exec, its program is the guest's, and `/proc/self/exe` refers to it. If that were
//! the file on the host, a sandbox of the file's owner could change its mode from inside.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use koze_core::error::{Code, Error, Result};

/// The name of the copy.
const NAME: &str = "koze-guest";
/// The mode: executable and not readable. Then the kernel hides `/proc/PID/exe` from other processes of the same user.
const MODE: u32 = 0o111;
/// `F_SEAL_EXEC`: prevents changes of the execute bits. Requires Linux 6.3.
const SEAL_EXEC: SealFlags = SealFlags::from_bits_retain(0x20);

/// How often adding the seals is attempted.
const SEAL_ATTEMPTS: u32 = 50;
/// The wait between attempts.
const SEAL_PAUSE: Duration = Duration::from_millis(20);

/// The copy. Hold it while a process is about to execute it, so that its path stays valid.
#[derive(Debug, Clone)]
pub(super) struct GuestProgram(Arc<OwnedFd>);

impl GuestProgram {
    /// Returns the one copy of this process. Creates it if it does not exist yet, or if its mode was changed.
    pub(super) fn get() -> Result<Self> {
        static COPY: Mutex<Option<GuestProgram>> = Mutex::new(None);
        let mut copy = COPY.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = copy.as_ref().filter(|known| known.untouched()) {
            return Ok(known.clone());
        }
        let made = GuestProgram(Arc::new(create_sealed(NAME).map_err(explain_error)?));
        Ok(copy.insert(made).clone())
    }

    /// Returns a copy that [`is_running`] does not recognize, for tests.
    pub(super) fn unnamed() -> Result<Self> {
        Ok(GuestProgram(Arc::new(create_sealed("").map_err(explain_error)?)))
    }

    /// Returns the path to execute.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }

    fn untouched(&self) -> bool {
        rustix::fs::fstat(&self.0).is_ok_and(|about| about.st_mode & 0o7777 == MODE)
    }
}

/// Returns whether this process runs the copy.
pub(super) fn is_running() -> bool {
    let name = format!("/memfd:{NAME} (deleted)");
    std::fs::read_link("/proc/self/exe").is_ok_and(|exe| exe.as_os_str() == name.as_str())
}

fn create_sealed(name: &str) -> io::Result<OwnedFd> {
    let mut from = File::open("/proc/self/exe")?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Before Linux 6.3 all such files are executable, and the flag is unknown.
    let created = match rustix::fs::memfd_create(name, flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        created => created,
    };
    let mut copy = File::from(created?);
    io::copy(&mut from, &mut copy)?;
    copy.set_permissions(Permissions::from_mode(MODE))?;
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    match add_seals(|| rustix::fs::fcntl_add_seals(&copy, seals | SEAL_EXEC)) {
        Err(Errno::INVAL) => add_seals(|| rustix::fs::fcntl_add_seals(&copy, seals))?,
        added => added?,
    }
    Ok(copy.into())
}

/// Adds seals. On a busy machine the kernel may still hold pages of the file, for example to migrate them. It waits for
/// them for about 150 ms and then returns `EBUSY`.
fn add_seals(add: impl Fn() -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    for _ in 1..SEAL_ATTEMPTS {
        match add() {
            Err(Errno::BUSY) => std::thread::sleep(SEAL_PAUSE),
            added => return added,
        }
    }
    add()
}

fn explain_error(error: io::Error) -> Error {
    let text = match error.kind() {
        ErrorKind::PermissionDenied => {
            "the kernel refused to run a program from memory, which sandboxes need: set `sysctl \
             vm.memfd_noexec=1` (2 forbids it)"
                .into()
        }
        ErrorKind::OutOfMemory => "not enough memory for the program that sandboxes run".into(),
        _ => format!("the program that sandboxes run cannot be copied into memory: {error}"),
    };
    Error::new(Code::Unavailable, text).with_source(error)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_busy_copy_is_sealed_later() {
        let tries = Cell::new(0);
        let add = |last| {
            tries.set(tries.get() + 1);
            if tries.get() < last { Err(Errno::BUSY) } else { Ok(()) }
        };
        assert_eq!(add_seals(|| add(3)), Ok(()));
        assert_eq!(tries.get(), 3);
        assert_eq!(add_seals(|| Err(Errno::INVAL)), Err(Errno::INVAL));
    }

    #[test]
    fn the_copy_is_unchanged() {
        let copy = GuestProgram::get().unwrap();
        let seals = rustix::fs::fcntl_get_seals(copy.0.as_fd()).unwrap();
        assert!(seals.contains(SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL));
        assert!(Arc::ptr_eq(&copy.0, &GuestProgram::get().unwrap().0), "there is one");
        // A copy that was changed is not executed again.
        rustix::fs::fchmod(&copy.0, rustix::fs::Mode::from_raw_mode(0o4111)).unwrap();
        assert!(!Arc::ptr_eq(&copy.0, &GuestProgram::get().unwrap().0));
    }
}
