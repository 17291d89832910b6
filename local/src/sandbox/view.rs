//! What programs in a sandbox see: its own directories, parts of the host, and their environment.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::image::SandboxImage;
use super::limits::{PROCESSES, disk_limit, memory_limit, processor_limit};
use crate::cgroup::{self, Group};
use crate::filter;
use crate::host::layout::OWN;
use crate::launch::{self, Bind, BindKind, Limits, Spec, Task, VisibleGroup};
use crate::weakness::{Weakness, Weaknesses};
use koze_core::error::Result;
use koze_core::provider::Settings;

/// The size of `/dev/shm` of a sandbox in MiB.
const SHARED: u32 = 64;
/// The same for a browser, whose programs share their memory there.
const BROWSER_SHARED: u32 = 512;

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
pub(super) const PROGRAMS: [&str; 4] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// Returns the specification of a sandbox.
pub(crate) fn sandbox_spec(
    directory: &Path,
    hostname: &str,
    settings: &Settings,
    owner: Option<u32>,
    group: Option<&Group>,
    weak: &Weaknesses,
    image: Option<&SandboxImage>,
) -> Result<Spec> {
    let mut spec = bare_spec(hostname, settings, owner, group, weak)?;
    match image {
        Some(image) => {
            spec.image = Some(image.root(directory, owner)?);
            spec.user = image.user();
            spec.texts.extend(image.texts());
            if spec.user.user == 0 {
                spec.filters.extend(filter::owner_filter()?);
            }
        }
        None => add_host(&mut spec),
    }
    for (path, target, _) in OWN.iter().filter(|(_, target, _)| !target.is_empty()) {
        bind_entry(&mut spec, &directory.join(path), (*target).to_owned(), BindKind::Writable);
    }
    for path in weak.files() {
        let kind = if path.is_dir() { BindKind::Writable } else { BindKind::File };
        bind_entry(&mut spec, path, path.to_string_lossy().trim_start_matches('/').to_owned(), kind);
    }
    if weak.has(&Weakness::Processes) {
        bind_entry(&mut spec, Path::new("/proc"), "proc".to_owned(), BindKind::Writable);
    }
    Ok(spec)
}

/// Adds the certificates that programs trust where TLS ends in koze's proxy.
pub(crate) fn bind_certificates(spec: &mut Spec, bundle: &Path) {
    bind_entry(spec, bundle, koze_egress::BUNDLE.to_owned(), BindKind::File);
    for store in koze_egress::TRUST_STORES {
        bind_entry(spec, bundle, store.to_owned(), BindKind::Cover);
    }
}

/// Redirects connections to koze's proxy, and lookups of names to its resolver.
pub(crate) fn redirect_connections(spec: &mut Spec) {
    spec.is_redirected = true;
    spec.texts.push(("etc/resolv.conf".to_owned(), koze_egress::transparent::resolver_settings()));
}

/// Returns the paths that programs in a sandbox see, and whether they can write to them.
pub(crate) fn list_mounts() -> Vec<(String, bool)> {
    let own = OWN.iter().filter(|(_, target, _)| !target.is_empty());
    let mut mounts: Vec<_> = own.map(|(_, target, _)| (format!("/{target}"), true)).collect();
    let system = SYSTEM.iter().map(|name| format!("/{name}"));
    let etc = ETC.iter().map(|name| format!("/etc/{name}"));
    mounts.extend(system.chain(etc).filter(|path| Path::new(path).exists()).map(|path| (path, false)));
    mounts
}

/// Returns the specification of a browser's sandbox, which has no files on disk: all that it writes is in `/dev/shm`.
pub(crate) fn browser_spec(settings: &Settings, owner: Option<u32>, group: Option<&Group>) -> Result<Spec> {
    let mut spec = bare_spec("browser", settings, owner, group, &Weaknesses::default())?;
    add_host(&mut spec);
    spec.shared_mib = BROWSER_SHARED;
    spec.links.extend(["tmp", "home/user"].map(|path| (path.to_owned(), "/dev/shm".to_owned())));
    Ok(spec)
}

/// Returns the parts of a specification that all sandboxes have in common.
fn bare_spec(
    hostname: &str,
    settings: &Settings,
    owner: Option<u32>,
    group: Option<&Group>,
    weak: &Weaknesses,
) -> Result<Spec> {
    let mut spec = Spec {
        texts: launch::limit_files(visible_limits(settings, group)),
        visible_group: visible_group(group),
        shared_mib: SHARED,
        processes: PROCESSES,
        file_size: disk_limit(settings),
        filters: filter::last_filters(group.is_some())?,
        owner,
        weak: weak.clone(),
        ..Spec::bare(hostname, Task::Guest)
    };
    for name in DEVICES {
        bind_entry(&mut spec, &Path::new("/dev").join(name), format!("dev/{name}"), BindKind::Device);
    }
    let link = |path: &str, target: &str| (path.to_owned(), target.to_owned());
    spec.links.extend([
        link("dev/fd", "/proc/self/fd"),
        link("dev/stdin", "/proc/self/fd/0"),
        link("dev/stdout", "/proc/self/fd/1"),
        link("dev/stderr", "/proc/self/fd/2"),
        link("dev/ptmx", "pts/ptmx"),
        link("etc/mtab", "/proc/self/mounts"),
    ]);
    let hosts = format!("127.0.0.1 localhost {hostname}\n::1 localhost\n");
    spec.texts.extend([link("etc/hostname", &format!("{hostname}\n")), link("etc/hosts", &hosts)]);
    Ok(spec)
}

/// Adds what a sandbox without an image sees of the host: its programs.
fn add_host(spec: &mut Spec) {
    for name in SYSTEM {
        add_system_entry(spec, name);
    }
    for name in ETC {
        add_system_entry(spec, &format!("etc/{name}"));
    }
    let entry = |path: &str, content: &str| (path.to_owned(), content.to_owned());
    spec.links.extend([entry("etc/os-release", "../usr/lib/os-release"), entry("var/tmp", "/tmp")]);
    // Models call it `python`, which Debian does not have.
    if !PROGRAMS.iter().any(|directory| Path::new(directory).join("python").exists()) {
        spec.links.push(entry("var/lib/koze/bin/python", "/usr/bin/python3"));
    }
    spec.texts.extend([
        entry(
            "etc/passwd",
            "user:x:1000:1000::/home/user:/bin/bash\nnobody:x:65534:65534::/:/usr/sbin/nologin\n",
        ),
        entry("etc/group", "user:x:1000:\nnogroup:x:65534:\n"),
        entry("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ]);
}

/// Adds an entry of the host under the same name. A link is recreated if its directory is entirely the sandbox's.
fn add_system_entry(spec: &mut Spec, name: &str) {
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
    bind_entry(spec, &path, name.to_owned(), kind);
}

fn bind_entry(spec: &mut Spec, source: &Path, target: String, kind: BindKind) {
    spec.binds.push(Bind { source: source.as_os_str().as_bytes().to_vec(), target, kind });
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
fn visible_limits(settings: &Settings, group: Option<&Group>) -> Limits {
    let has_share = group.is_some_and(|group| group.processors);
    Limits {
        memory: memory_limit(settings),
        processes: PROCESSES,
        processors: has_share.then(|| processor_limit(settings)),
    }
}

/// Returns the environment of every program in a sandbox without an image. No variable of the host is passed on.
pub(crate) fn program_environment() -> Vec<(String, String)> {
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
