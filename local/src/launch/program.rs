//! The program that a sandbox's first process runs: a sealed copy in memory of the one that runs this.
//!
//! A child of the guest has the guest's program as its own until it is another one, and `/proc/self/exe` leads there. Were
//! that the file on the host, a sandbox of the file's owner could change its mode from inside.

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

/// What the copy is called.
const NAME: &str = "koze-guest";
/// It may be run and not read: then the kernel shows nobody else of the same user what runs it (`/proc/PID/exe`).
const MODE: u32 = 0o111;
/// `F_SEAL_EXEC`: whether it may be run stays as it is. Linux 6.3.
const SEAL_EXEC: SealFlags = SealFlags::from_bits_retain(0x20);

/// How often the copy's seals are tried.
const SEAL_ATTEMPTS: u32 = 50;
/// The pause between two tries.
const SEAL_PAUSE: Duration = Duration::from_millis(20);

/// The copy. It stays where the kernel finds it, also for a process that is about to run it, while this is kept.
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
        let made = GuestProgram(Arc::new(sealed(NAME).map_err(|error| explain(&error))?));
        Ok(copy.insert(made).clone())
    }

    /// Returns a copy that [`is_running`] does not recognize, for tests.
    pub(super) fn unnamed() -> Result<Self> {
        Ok(GuestProgram(Arc::new(sealed("").map_err(|error| explain(&error))?)))
    }

    /// Where to run it from.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }

    fn untouched(&self) -> bool {
        rustix::fs::fstat(&self.0).is_ok_and(|about| about.st_mode & 0o7777 == MODE)
    }
}

/// Whether this process runs the copy.
pub(super) fn is_running() -> bool {
    let name = format!("/memfd:{NAME} (deleted)");
    std::fs::read_link("/proc/self/exe").is_ok_and(|exe| exe.as_os_str() == name.as_str())
}

fn sealed(name: &str) -> io::Result<OwnedFd> {
    let mut from = File::open("/proc/self/exe")?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Before Linux 6.3 every such file may be run, and the flag is unknown.
    let created = match rustix::fs::memfd_create(name, flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        created => created,
    };
    let mut copy = File::from(created?);
    io::copy(&mut from, &mut copy)?;
    copy.set_permissions(Permissions::from_mode(MODE))?;
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    match seal(|| rustix::fs::fcntl_add_seals(&copy, seals | SEAL_EXEC)) {
        Err(Errno::INVAL) => seal(|| rustix::fs::fcntl_add_seals(&copy, seals))?,
        added => added?,
    }
    Ok(copy.into())
}

/// Adds seals. On a busy machine the kernel itself may still hold pages of the file, to move them for example; it waits for
/// them for some 150 ms and then returns `EBUSY`.
fn seal(add: impl Fn() -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    for _ in 1..SEAL_ATTEMPTS {
        match add() {
            Err(Errno::BUSY) => std::thread::sleep(SEAL_PAUSE),
            added => return added,
        }
    }
    add()
}

fn explain(error: &io::Error) -> Error {
    let text = match error.kind() {
        ErrorKind::PermissionDenied => {
            "the kernel refused to run a program from memory, which sandboxes need: set `sysctl \
             vm.memfd_noexec=1` (2 forbids it)"
                .into()
        }
        ErrorKind::OutOfMemory => "not enough memory for the program that sandboxes run".into(),
        _ => format!("the program that sandboxes run cannot be copied into memory: {error}"),
    };
    Error::new(Code::Unavailable, text)
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
        assert_eq!(seal(|| add(3)), Ok(()));
        assert_eq!(tries.get(), 3);
        assert_eq!(seal(|| Err(Errno::INVAL)), Err(Errno::INVAL));
    }

    #[test]
    fn the_copy_stays_as_it_is() {
        let copy = GuestProgram::get().unwrap();
        let seals = rustix::fs::fcntl_get_seals(copy.0.as_fd()).unwrap();
        assert!(seals.contains(SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL));
        assert!(Arc::ptr_eq(&copy.0, &GuestProgram::get().unwrap().0), "there is one");
        // One that somebody has touched is not run again.
        rustix::fs::fchmod(&copy.0, rustix::fs::Mode::from_raw_mode(0o4111)).unwrap();
        assert!(!Arc::ptr_eq(&copy.0, &GuestProgram::get().unwrap().0));
    }
}
