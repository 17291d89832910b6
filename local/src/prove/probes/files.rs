//! Files, nodes and descriptors of the host.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::{Target, nothing};

fn holds_secret(path: &Path, target: &Target) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    if text.contains(&target.secret) { Ok(()) } else { Err(nothing("something else is there")) }
}

pub(super) fn read(target: &Target) -> io::Result<()> {
    holds_secret(&target.dir.join("secret"), target)
}

pub(super) fn write(target: &Target) -> io::Result<()> {
    OpenOptions::new().append(true).open(target.dir.join("open")).map(drop)
}

pub(super) fn neighbour(target: &Target) -> io::Result<()> {
    holds_secret(&target.neighbour, target)
}

pub(super) fn hard_link(target: &Target) -> io::Result<()> {
    let link = |to: &Path| {
        let to = to.join(format!("link-{}", std::process::id()));
        fs::hard_link(target.dir.join("open"), &to)?;
        fs::remove_file(to)
    };
    // Next to the file, where a link on the same disk is possible; and in the home.
    link(&target.dir).or_else(|_| link(Path::new("/home/user")))
}

pub(super) fn socket(target: &Target) -> io::Result<()> {
    UnixStream::connect(target.dir.join("socket")).map(drop)
}

/// Succeeds if any of the paths can be opened for reading.
fn any(paths: impl IntoIterator<Item = PathBuf>) -> io::Result<()> {
    let mut last = nothing("no path could be opened");
    for path in paths {
        match File::open(path) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

pub(super) fn devices(_: &Target) -> io::Result<()> {
    const HARMLESS: &[&str] = &[
        "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin", "stdout",
        "stderr",
    ];
    let names = fs::read_dir("/dev")?.flatten().filter(|entry| {
        let name = entry.file_name();
        !HARMLESS.iter().any(|harmless| name == *harmless)
            && entry.file_type().is_ok_and(|kind| !kind.is_dir())
    });
    let found: Vec<PathBuf> = names.map(|entry| entry.path()).collect();
    let known = ["/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/net/tun"].map(PathBuf::from);
    any(found.into_iter().chain(known))
}

pub(super) fn make_node(_: &Target) -> io::Result<()> {
    let path = PathBuf::from(format!("/tmp/node-{}", std::process::id()));
    let (kind, mode) = (rustix::fs::FileType::CharacterDevice, rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, rustix::fs::makedev(1, 8))?;
    let opened = File::open(&path).map(drop);
    fs::remove_file(&path)?;
    opened
}

/// Checks that `/sys` has nothing but one control group, which shows the limits and cannot be changed.
pub(super) fn sys(_: &Target) -> io::Result<()> {
    for (directory, own) in [("/sys", "fs"), ("/sys/fs", "cgroup")] {
        if fs::read_dir(directory)?.flatten().any(|entry| entry.file_name() != own) {
            return Ok(());
        }
    }
    for entry in fs::read_dir("/sys/fs/cgroup")?.flatten() {
        // A directory is another group.
        if entry.file_type()?.is_dir() || writable(&entry.path()) {
            return Ok(());
        }
    }
    Err(nothing("only the sandbox's own limits are there"))
}

/// Opens a file for writing, and writes nothing.
fn writable(path: &Path) -> bool {
    OpenOptions::new().write(true).open(path).is_ok()
}

pub(super) fn proc_sys(_: &Target) -> io::Result<()> {
    let mut left = vec![PathBuf::from("/proc/sys")];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(entry.path()),
                // It concerns the sandbox's own processes. Every user can open it, but writing requires a privilege that
                // none has.
                _ if entry.path() == Path::new("/proc/sys/kernel/ns_last_pid") => {}
                _ if writable(&entry.path()) => return Ok(()),
                _ => {}
            }
        }
    }
    Err(nothing("none can be written"))
}

pub(super) fn kernel(_: &Target) -> io::Result<()> {
    for path in ["/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/mtrr"] {
        if writable(Path::new(path)) {
            return Ok(());
        }
    }
    any([
        "/proc/kcore",
        "/proc/kmsg",
        "/proc/kpagecount",
        "/proc/1/mem",
        "/proc/slabinfo",
        "/proc/vmallocinfo",
    ]
    .map(PathBuf::from))
}

/// Checks that only the sandbox's own directories are mounted writable.
pub(super) fn mounts(_: &Target) -> io::Result<()> {
    const OWN: &[&str] = &["/home/user", "/workspace", "/tmp", "/mnt/user-data", "/proc"];
    const BELOW: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/dev"];
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let odd = table.lines().find(|line| {
        let mut fields = line.split(' ').skip(4);
        let (point, options) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let below = |top: &str| point == top || point.starts_with(&format!("{top}/"));
        // Read-only mounts that cover parts of it, the sandbox's control group, and koze's files.
        let is_known = point.starts_with("/proc/") || point == "/sys/fs/cgroup" || below("/var/lib/koze");
        let covers = is_known && options.split(',').any(|option| option == "ro");
        point != "/" && !OWN.contains(&point) && !BELOW.iter().any(|top| below(top)) && !covers
    });
    odd.map(drop).ok_or_else(|| nothing("all of it is the sandbox's own"))
}

/// The host's programs, and those that the kernel runs.
pub(super) fn usr(_: &Target) -> io::Result<()> {
    let path = format!("/usr/koze-{}", std::process::id());
    File::create(&path)?;
    fs::remove_file(path)
}

pub(super) fn descriptors(target: &Target) -> io::Result<()> {
    let open: Vec<PathBuf> = fs::read_dir("/proc/self/fd")?.flatten().map(|entry| entry.path()).collect();
    // The standard streams may be anything.
    let own = |path: &PathBuf| ["0", "1", "2"].iter().any(|own| path.ends_with(own));
    let found = open.iter().filter(|path| !own(path)).any(|path| holds_secret(path, target).is_ok());
    if found { Ok(()) } else { Err(nothing("none leads to it")) }
}

/// Opens a terminal of the host, recognized by its size. The sandbox may have one of the same name.
pub(super) fn terminal(target: &Target) -> io::Result<()> {
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let opened = rustix::fs::open(&target.terminal, flags, rustix::fs::Mode::empty())?;
    let size = rustix::termios::tcgetwinsize(&opened)?;
    let same = (size.ws_row, size.ws_col) == super::TERMINAL;
    if same { Ok(()) } else { Err(nothing("it is the sandbox's own")) }
}
