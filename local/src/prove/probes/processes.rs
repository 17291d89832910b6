//! Processes of the host, and the guest.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, Signal};

use super::{Target, nothing};

/// Returns the guest: the parent of this program.
fn guest() -> String {
    let parent = rustix::process::getppid().map_or(1, Pid::as_raw_pid);
    format!("/proc/{parent}")
}

pub(super) fn see(target: &Target) -> io::Result<()> {
    let line = fs::read(format!("/proc/{}/cmdline", target.victim))?;
    if line.starts_with(b"sleep\0") { Ok(()) } else { Err(nothing("another process has its number")) }
}

/// Sends a harmless signal: SIGCONT to a running process.
pub(super) fn signal(target: &Target) -> io::Result<()> {
    see(target)?;
    let victim = Pid::from_raw(target.victim).ok_or_else(|| nothing("it has none"))?;
    Ok(rustix::process::kill_process(victim, Signal::CONT)?)
}

pub(super) fn environment_of_victim(target: &Target) -> io::Result<()> {
    see(target)?;
    fs::read(format!("/proc/{}/environ", target.victim)).map(drop)
}

/// Searches this program's environment, and that of every accessible process.
pub(super) fn environment(target: &Target) -> io::Result<()> {
    let wanted = format!("{}=", target.variable);
    let processes = fs::read_dir("/proc")?.flatten().map(|entry| entry.path().join("environ"));
    let texts = processes.filter_map(|path| fs::read(path).ok());
    let found = texts
        .into_iter()
        .any(|text| text.split(|byte| *byte == 0).any(|one| one.starts_with(wanted.as_bytes())));
    if found || std::env::var_os(&target.variable).is_some() { Ok(()) } else { Err(nothing("it is nowhere")) }
}

pub(super) fn guest_environment(_: &Target) -> io::Result<()> {
    fs::read(format!("{}/environ", guest())).map(drop)
}

/// One of them is the socket to the host.
pub(super) fn guest_descriptors(_: &Target) -> io::Result<()> {
    let all = fs::read_dir(format!("{}/fd", guest()))?;
    let mut leads = all.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let socket = leads.find(|target| target.to_string_lossy().starts_with("socket:"));
    socket.map(drop).ok_or_else(|| nothing("no socket is to be seen"))
}

pub(super) fn guest_root(_: &Target) -> io::Result<()> {
    fs::read_dir(format!("{}/root", guest())).map(drop)
}

/// Runs a set-user-ID program of root.
pub(super) fn setuid(_: &Target) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    if rustix::thread::no_new_privs()? {
        return Err(nothing("no new privileges are given"));
    }
    let honoured = |path: &Path| {
        let mount = rustix::fs::statvfs(path);
        mount.is_ok_and(|mount| !mount.f_flag.contains(rustix::fs::StatVfsMountFlags::NOSUID))
    };
    let programs = ["/usr/bin", "/usr/sbin", "/bin"].iter().flat_map(fs::read_dir).flatten().flatten();
    let found = programs.map(|entry| entry.path()).any(|path| {
        let about = fs::metadata(&path);
        about.is_ok_and(|about| about.uid() == 0 && about.permissions().mode() & 0o4000 != 0)
            && honoured(&path)
    });
    if found { Ok(()) } else { Err(nothing("no setuid program of root is effective for this program")) }
}

pub(super) fn raise_limit(_: &Target) -> io::Result<()> {
    let more = Rlimit { current: Some(8192), maximum: Some(8192) };
    Ok(rustix::process::setrlimit(Resource::Nofile, more)?)
}
