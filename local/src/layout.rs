//! The layout of a sandbox: its files on the host, and what it sees of the host.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::cgroup::{self, Group};
use super::launch::{self, Bind, BindKind, Limits, Spec, Task, VisibleGroup, Weakness, Weaknesses};
use koze_core::error::Result;
use koze_core::provider::Settings;

/// The maximum number of processes and threads of a sandbox.
pub(super) const PROCESSES: u64 = 512;
/// The maximum depth of directories. A deeper tree counts as too large, because measuring it would take too many
/// descriptors.
pub(super) const MAX_DEPTH: usize = 1500;

/// The size of `/dev/shm` of a sandbox in MiB.
const SHARED: u32 = 64;
/// The same for a browser, whose programs share their memory there.
const BROWSER_SHARED: u32 = 512;

/// A sandbox's own directories: their path below its directory on the host, their path in the sandbox, and their mode.
const OWN: &[(&str, &str, u32)] = &[
    ("files/home", "home/user", 0o755),
    ("files/workspace", "workspace", 0o755),
    ("files/tmp", "tmp", 0o1777),
    ("files/user-data", "mnt/user-data", 0o755),
    ("files/user-data/workspace", "", 0o755),
    ("files/user-data/uploads", "", 0o755),
    ("files/user-data/outputs", "", 0o755),
];

/// Directories of the host that are visible, or recreated if they are links. No home, no `/opt`, no `/var`, no `/run`.
const SYSTEM: &[&str] = &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// The visible part of `/etc`: nothing that names users, hosts or secrets.
const ETC: &[&str] = &[
    "alternatives",
    "bash_completion.d",
    "ca-certificates",
    "fonts",
    "ImageMagick-6",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "pki/ca-trust",
    "pki/tls/certs",
    "protocols",
    "python3",
    "python3.11",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

/// The directories of the host's programs that are visible.
const PROGRAMS: [&str; 4] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// A sandbox's own directory, and a path below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Own {
    /// The directory's path below that of the sandbox on the host.
    pub(super) path: &'static str,
    /// Its path in the sandbox, without the leading slash.
    pub(super) target: &'static str,
    /// The rest of the path, empty for the directory itself.
    pub(super) below: String,
}

/// Finds the own directory that a path in a sandbox is in.
pub(super) fn own(path: &str) -> Option<Own> {
    let path = path.strip_prefix('/')?;
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return None;
    }
    let within = |(own, target, _): &(&'static str, &'static str, u32)| {
        let below = path.strip_prefix(target).filter(|_| !target.is_empty())?;
        let below = if below.is_empty() { below } else { below.strip_prefix('/')? };
        Some(Own { path: own, target, below: below.to_owned() })
    };
    OWN.iter().find_map(within)
}

/// Returns the directory of a sandbox on the host.
pub(super) fn directory(state: &Path, key: &str) -> PathBuf {
    use std::fmt::Write;
    let mut name = String::new();
    for byte in Sha256::digest(key) {
        let _ = write!(name, "{byte:02x}");
    }
    state.join(name)
}

/// Creates the missing parts of a sandbox's directory.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    fs::DirBuilder::new().recursive(true).mode(0o711).create(directory.join("files"))
}

/// Creates what is missing of a sandbox's own directories, and returns its user on the host. Claim the sandbox first.
pub(super) fn furnish(directory: &Path, weak: &Weaknesses) -> io::Result<Option<u32>> {
    let owner = super::owner::settle(directory, weak)?;
    create(directory, owner)?;
    Ok(owner)
}

/// Creates what is missing of the directories that a sandbox's user owns.
pub(super) fn create(directory: &Path, owner: Option<u32>) -> io::Result<()> {
    for (path, _, mode) in OWN {
        let path = directory.join(path);
        // The sandbox's user may have replaced it with a link, which must not be followed.
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode))?;
        std::os::unix::fs::lchown(&path, owner, owner)?;
    }
    Ok(())
}

/// Returns the specification of a sandbox.
pub(super) fn spec(
    directory: &Path,
    hostname: &str,
    settings: &Settings,
    owner: Option<u32>,
    group: Option<&Group>,
    weak: &Weaknesses,
) -> Result<Spec> {
    let mut spec = bare(hostname, settings, owner, group, weak)?;
    for (path, target, _) in OWN.iter().filter(|(_, target, _)| !target.is_empty()) {
        bind(&mut spec, &directory.join(path), (*target).to_owned(), BindKind::Writable);
    }
    for path in weak.files() {
        let kind = if path.is_dir() { BindKind::Writable } else { BindKind::File };
        bind(&mut spec, path, path.to_string_lossy().trim_start_matches('/').to_owned(), kind);
    }
    if weak.has(&Weakness::Processes) {
        bind(&mut spec, Path::new("/proc"), "proc".to_owned(), BindKind::Writable);
    }
    Ok(spec)
}

/// Returns the specification of a browser's sandbox, which has no files on disk: all that it writes is in `/dev/shm`.
pub(super) fn browser(settings: &Settings, owner: Option<u32>, group: Option<&Group>) -> Result<Spec> {
    let mut spec = bare("browser", settings, owner, group, &Weaknesses::default())?;
    spec.shared_mib = BROWSER_SHARED;
    spec.links.extend(["tmp", "home/user"].map(|path| (path.to_owned(), "/dev/shm".to_owned())));
    Ok(spec)
}

/// Returns the parts of a specification that all sandboxes have in common: what they see of the host.
fn bare(
    hostname: &str,
    settings: &Settings,
    owner: Option<u32>,
    group: Option<&Group>,
    weak: &Weaknesses,
) -> Result<Spec> {
    let mut spec = Spec {
        binds: Vec::new(),
        overlay: None,
        links: Vec::new(),
        texts: launch::limit_texts(limits(settings, group)),
        visible_group: visible_group(group),
        hostname: hostname.to_owned(),
        shared_mib: SHARED,
        processes: PROCESSES,
        file_size: disk(settings),
        filters: super::filter::last(group.is_some())?,
        owner,
        weak: weak.clone(),
        task: Task::Guest,
    };
    for name in SYSTEM {
        system(&mut spec, name);
    }
    for name in ETC {
        system(&mut spec, &format!("etc/{name}"));
    }
    for name in DEVICES {
        bind(&mut spec, &Path::new("/dev").join(name), format!("dev/{name}"), BindKind::Device);
    }
    let link = |path: &str, target: &str| (path.to_owned(), target.to_owned());
    spec.links.extend([
        link("dev/fd", "/proc/self/fd"),
        link("dev/stdin", "/proc/self/fd/0"),
        link("dev/stdout", "/proc/self/fd/1"),
        link("dev/stderr", "/proc/self/fd/2"),
        link("dev/ptmx", "pts/ptmx"),
        link("etc/mtab", "/proc/self/mounts"),
        link("etc/os-release", "../usr/lib/os-release"),
        link("var/tmp", "/tmp"),
    ]);
    // Models call it `python`, which Debian does not have.
    if !PROGRAMS.iter().any(|directory| Path::new(directory).join("python").exists()) {
        spec.links.push(link("var/lib/koze/bin/python", "/usr/bin/python3"));
    }
    let hosts = format!("127.0.0.1 localhost {hostname}\n::1 localhost\n");
    spec.texts.extend([
        link(
            "etc/passwd",
            "user:x:1000:1000::/home/user:/bin/bash\nnobody:x:65534:65534::/:/usr/sbin/nologin\n",
        ),
        link("etc/group", "user:x:1000:\nnogroup:x:65534:\n"),
        link("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
        link("etc/hostname", &format!("{hostname}\n")),
        link("etc/hosts", &hosts),
    ]);
    Ok(spec)
}

/// Adds an entry of the host under the same name. A link is recreated if its directory is entirely the sandbox's.
fn system(spec: &mut Spec, name: &str) {
    let path = Path::new("/").join(name);
    let Ok(found) = fs::symlink_metadata(&path) else { return };
    if found.is_symlink()
        && let Ok(target) = fs::read_link(&path)
        && let Some(target) = target.to_str()
        && (target.starts_with("usr/") || target.starts_with("/usr/"))
    {
        spec.links.push((name.to_owned(), target.to_owned()));
        return;
    }
    let Ok(found) = fs::metadata(&path) else { return };
    let kind = if found.is_dir() { BindKind::Directory } else { BindKind::File };
    bind(spec, &path, name.to_owned(), kind);
}

fn bind(spec: &mut Spec, source: &Path, target: String, kind: BindKind) {
    spec.binds.push(Bind { source: source.as_os_str().as_bytes().to_vec(), target, kind });
}

/// Returns the disk limit of a sandbox in bytes.
pub(super) fn disk(settings: &Settings) -> u64 {
    u64::from(settings.profile.size.disk_mb) * 1_000_000
}

/// Returns the maximum number of directory entries of a sandbox. Each counts at least 4 KiB of disk space, except
/// further names of a file.
pub(super) fn entries(settings: &Settings) -> u64 {
    disk(settings) / 2048 + 65_536
}

/// Returns the memory limit of a sandbox in bytes.
pub(super) fn memory(settings: &Settings) -> u64 {
    u64::from(settings.profile.size.memory_mib) << 20
}

/// Returns the CPU limit of a sandbox in thousandths of a processor: that of Cloudflare's instance type with this
/// memory, but at least one processor, because a sixteenth of one is too slow for interactive use.
pub(super) fn processors(settings: &Settings) -> u64 {
    match settings.profile.size.memory_mib {
        12_288.. => 4000,
        8192.. => 2000,
        _ => 1000,
    }
}

/// Returns how many threads a program should use if its CPU is limited, for the variable that `nproc` and OpenMP read. The affinity mask
/// is not changed: it would bind a sandbox to fixed processors, which others may keep busy while the rest is idle.
pub(super) fn threads(settings: &Settings) -> u64 {
    let here = std::thread::available_parallelism().map_or(1, |all| all.get() as u64);
    (processors(settings) / 1000).min(here)
}

/// Returns where the control group that programs see comes from.
fn visible_group(group: Option<&Group>) -> VisibleGroup {
    match group {
        Some(group) if group.is_unified() => VisibleGroup::Own,
        _ if cgroup::has_unified() => VisibleGroup::Covered,
        _ => VisibleGroup::Files,
    }
}

/// Returns the limits that programs see.
fn limits(settings: &Settings, group: Option<&Group>) -> Limits {
    let has_share = group.is_some_and(|group| group.processors);
    Limits {
        memory: memory(settings),
        processes: PROCESSES,
        processors: has_share.then(|| processors(settings)),
    }
}

/// Returns the environment of every program. No variable of the host is passed on.
pub(super) fn environment() -> Vec<(String, String)> {
    [
        (
            "PATH",
            "/home/user/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/var/lib/koze/bin",
        ),
        // The system's packages are read-only, so pip installs for the user. Debian's refuses even that without this.
        ("PIP_BREAK_SYSTEM_PACKAGES", "1"),
        ("HOME", "/home/user"),
        ("USER", "user"),
        ("LOGNAME", "user"),
        ("SHELL", "/bin/bash"),
        // Like LANG, but without the eleven other files that every program would open.
        ("LC_CTYPE", "C.UTF-8"),
        ("TMPDIR", "/tmp"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}
