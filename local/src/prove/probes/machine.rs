//! Machine-wide resources: disk, counters, and information from the kernel.
#![allow(unsafe_code, reason = "system calls that have no safe form")]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, Protocol, SocketType};

use super::{Target, nothing};

/// Within the disk limit, so that the watch does not react.
const ALLOCATED: i64 = 50_000_000;

fn allocate(with: impl FnOnce(&File) -> libc::c_int) -> io::Result<()> {
    let path = format!("/home/user/allocated-{}", std::process::id());
    let file = File::create_new(&path)?;
    fs::remove_file(&path)?;
    if with(&file) < 0 {
        return Err(io::Error::last_os_error());
    }
    let taken = file.metadata()?.blocks() << 9;
    if taken >= ALLOCATED.cast_unsigned() { Ok(()) } else { Err(nothing("it took no disk")) }
}

pub(super) fn fallocate(_: &Target) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    allocate(|file| unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, ALLOCATED) })
}

/// `FS_IOC_RESVSP64`, which the kernel supports for every file system.
pub(super) fn reserve(_: &Target) -> io::Result<()> {
    /// `struct space_resv`.
    #[repr(C)]
    struct Space {
        kind: i16,
        whence: i16,
        start: i64,
        length: i64,
        system: i32,
        process: u32,
        rest: [i32; 4],
    }
    let space =
        Space { kind: 0, whence: 0, start: 0, length: ALLOCATED, system: 0, process: 0, rest: [0; 4] };
    // SAFETY: the descriptor is open, and the kernel reads the size of the structure.
    allocate(|file| unsafe { libc::ioctl(file.as_raw_fd(), 0x4030_582a, &raw const space) })
}

/// Takes more than half of a host user's usual limit.
pub(super) fn inotify(_: &Target) -> io::Result<()> {
    let host = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances")?;
    let host: usize = host.trim().parse().map_err(io::Error::other)?;
    let flags = rustix::fs::inotify::CreateFlags::CLOEXEC;
    let all: Result<Vec<_>, _> =
        (0..(host * 3 / 5).min(1000)).map(|_| rustix::fs::inotify::init(flags)).collect();
    Ok(all.map(drop)?)
}

/// All protocols except the one that lists the sandbox's own interfaces.
pub(super) fn netlink(_: &Target) -> io::Result<()> {
    assert!(rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None).is_ok());
    let mut last = Err(nothing("there is no other"));
    for number in (1..32).filter_map(std::num::NonZeroU32::new) {
        let protocol = Some(Protocol::from_raw(number));
        match rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, protocol) {
            Ok(_) => return Ok(()),
            Err(error) => last = Err(error.into()),
        }
    }
    last
}

/// Fills the unread queues of netlink sockets with more than the sandbox's memory: the error of an unknown request carries
/// the request back.
pub(super) fn netlink_queues(_: &Target) -> io::Result<()> {
    use rustix::net::{SendFlags, SocketFlags, send, socket_with};

    const LENGTH: u32 = 32 << 10;
    /// As many answers as fit into the queue of a socket, or a few more.
    const PER_SOCKET: usize = 8;
    const SOCKETS: usize = 3600;
    let unknown = [LENGTH.to_ne_bytes(), [0xe7, 3, 5, 0]].concat();
    let mut request = vec![0; LENGTH as usize];
    request[..unknown.len()].copy_from_slice(&unknown);
    let mut all = Vec::new();
    for _ in 0..SOCKETS {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        // Answers that do not fit are dropped, and no error says so.
        for _ in 0..PER_SOCKET {
            send(&socket, &request, SendFlags::DONTWAIT)?;
        }
        all.push(socket);
    }
    // The watch has to see it several times over.
    std::thread::sleep(Duration::from_secs(3));
    Ok(())
}

/// Reads the kernel's information about keys, its command line and devices.
pub(super) fn told(_: &Target) -> io::Result<()> {
    const FILES: &[&str] =
        &["keys", "key-users", "cmdline", "config.gz", "interrupts", "timer_list", "sched_debug"];
    let told = |name: &&&str| fs::read(Path::new("/proc").join(name)).is_ok_and(|text| !text.is_empty());
    if let Some(name) = FILES.iter().find(told) {
        eprintln!("/proc/{name} tells something");
        return Ok(());
    }
    for name in ["acpi", "asound", "scsi"] {
        if fs::read_dir(Path::new("/proc").join(name)).is_ok_and(|mut all| all.next().is_some()) {
            return Ok(());
        }
    }
    Err(nothing("nothing is told"))
}

/// The kernel passes core dumps to a helper program with a limit of 0, but not with 1.
pub(super) fn core(_: &Target) -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let mut now = libc::rlimit { rlim_cur: 9, rlim_max: 9 };
    // SAFETY: the kernel reads one limit and writes another, both in valid variables.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::prlimit(0, libc::RLIMIT_CORE, &raw const none, &raw mut now);
        libc::getrlimit(libc::RLIMIT_CORE, &raw mut now);
    }
    if now.rlim_cur == 1 { Err(nothing("it stays 1")) } else { Ok(()) }
}

/// Registers a trigger, whose file must stay open.
pub(super) fn pressure(_: &Target) -> io::Result<()> {
    let open = |path| File::options().read(true).write(true).open(path);
    let mut file = open("/proc/pressure/cpu").or_else(|_| open("/sys/fs/cgroup/cpu.pressure"))?;
    file.write_all(b"some 150000 2000000\0")
}

/// Creates more than half of the timers that a host user may have by default, which is half of the number of threads.
pub(super) fn timers(_: &Target) -> io::Result<()> {
    let threads = fs::read_to_string("/proc/sys/kernel/threads-max")?;
    let threads: u32 = threads.trim().parse().map_err(io::Error::other)?;
    for _ in 0..threads / 2 * 3 / 5 {
        let mut timer: libc::c_int = 0;
        // SAFETY: without an event, the kernel only writes the number of the timer.
        let made = unsafe {
            let event = std::ptr::null::<libc::sigevent>();
            libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, event, &raw mut timer)
        };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
