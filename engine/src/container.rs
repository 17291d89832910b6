//! How the container of a sandbox is created.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, ResourcesUlimits};
use koze_core::error::{Code, Error, Result};
use koze_core::id::SandboxId;
use koze_core::path::HOME;
use koze_core::provider::{Profile, Settings};

/// The label of every container of koze, with the directory of its session as a hash.
pub(crate) const STATE_LABEL: &str = "dev.koze.state";
const TENANT_LABEL: &str = "dev.koze.tenant";
const SESSION_LABEL: &str = "dev.koze.session";
const SANDBOX_LABEL: &str = "dev.koze.sandbox";
const PROFILE_LABEL: &str = "dev.koze.profile";

/// The path of the guest in containers, as in koze's images.
const GUEST_PATH: &str = ".koze/guest";
/// The directories that tools expect, with their parents.
const DIRECTORIES: [&str; 7] = [
    "home/user",
    "workspace",
    "mnt",
    "mnt/user-data",
    "mnt/user-data/workspace",
    "mnt/user-data/uploads",
    "mnt/user-data/outputs",
];
/// The maximum number of processes and threads of a sandbox.
pub const MAX_PROCESSES: u64 = 512;
/// The limit of open files and of the processes of one user. An engine's own defaults may exceed those of its machine, and then
/// no container starts.
const ULIMIT: i64 = 4096;
/// The user of programs if an image names one that is not a number, whose ID only the container knows.
const UNKNOWN_USER: u64 = 1000;

/// Returns what the engine is to create for a sandbox.
pub(crate) fn create_body(
    id: &SandboxId,
    settings: &Settings,
    image: &str,
    state: &str,
) -> ContainerCreateBody {
    let Profile { name, env, size, .. } = &settings.profile;
    let memory = i64::from(size.memory_mib) << 20;
    let labels = [
        (STATE_LABEL, state),
        (TENANT_LABEL, id.session.tenant()),
        (SESSION_LABEL, id.session.session()),
        (SANDBOX_LABEL, id.name.as_str()),
        (PROFILE_LABEL, name.as_str()),
    ];
    let home = std::iter::once(format!("HOME={HOME}"));
    let env = home.chain(env.iter().map(|(name, value)| format!("{name}={value}")));
    let ulimit =
        |name: &str| ResourcesUlimits { name: Some(name.to_owned()), soft: Some(ULIMIT), hard: Some(ULIMIT) };
    ContainerCreateBody {
        hostname: Some(id.name.to_string()),
        image: Some(image.to_owned()),
        entrypoint: Some(vec![format!("/{GUEST_PATH}"), "--stdio".to_owned()]),
        // The image's own command would be appended.
        cmd: Some(Vec::new()),
        env: Some(env.collect()),
        working_dir: Some("/".to_owned()),
        labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        tty: Some(false),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(true),
        // The guest exits when the process that holds its standard input ends, also if that was killed.
        stdin_once: Some(true),
        network_disabled: Some(true),
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
        stop_signal: Some("SIGTERM".to_owned()),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            memory: Some(memory),
            memory_swap: Some(memory),
            nano_cpus: Some(size.processors().cast_signed() * 1_000_000_000),
            pids_limit: Some(MAX_PROCESSES.cast_signed()),
            ulimits: Some(vec![ulimit("nofile"), ulimit("nproc")]),
            // The frames of the connection are no log.
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            cap_drop: Some(vec!["NET_RAW".to_owned()]),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

/// Returns the archive that is unpacked in a new container: the guest, and the directories that tools expect, which belong to
/// the user of the image.
///
/// # Errors
/// [`Code::Internal`] if it cannot be written.
pub(crate) fn pack_guest(guest: &[u8], user: &str) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| {
        Error::new(Code::Internal, "the archive of the guest cannot be written").with_source(error)
    };
    let (uid, gid) = parse_user(user);
    let mut tar = tar::Builder::new(Vec::new());
    let mut add = |path: &str, mode: u32, owner: (u64, u64), content: Option<&[u8]>| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(if content.is_some() {
            tar::EntryType::Regular
        } else {
            tar::EntryType::Directory
        });
        header.set_mode(mode);
        header.set_uid(owner.0);
        header.set_gid(owner.1);
        let content = content.unwrap_or_default();
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, path, content).map_err(failed)
    };
    add(".koze", 0o755, (0, 0), None)?;
    add(GUEST_PATH, 0o755, (0, 0), Some(guest))?;
    for directory in DIRECTORIES {
        let is_shared = directory == "mnt";
        let owner = if is_shared { (0, 0) } else { (uid, gid) };
        add(directory, 0o755, owner, None)?;
    }
    tar.into_inner().map_err(failed)
}

/// Returns the archive with the file of certificates that programs trust, which is unpacked in a container before it starts.
///
/// # Errors
/// [`Code::Unavailable`] if the file cannot be read.
pub(crate) fn pack_certificates(file: &Path, path: &str) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| {
        let message = "the certificates of the egress proxy cannot be read";
        Error::new(Code::Unavailable, message).with_source(error)
    };
    let content = std::fs::read(file).map_err(failed)?;
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(content.len() as u64);
    tar.append_data(&mut header, path, &content[..]).map_err(failed)?;
    tar.into_inner().map_err(failed)
}

/// Returns the IDs of an image's user: `1000`, `1000:1000`, or a name, whose IDs are guessed unless it is `root`.
fn parse_user(user: &str) -> (u64, u64) {
    let (name, group) = user.split_once(':').unwrap_or((user, ""));
    let uid = match name {
        "" | "root" => 0,
        name => name.parse().unwrap_or(UNKNOWN_USER),
    };
    let gid = match group {
        "root" => 0,
        "" => uid,
        group => group.parse().unwrap_or(uid),
    };
    (uid, gid)
}

/// The architecture for which there is a guest, as engines call it.
const ARCHITECTURE: &str = "amd64";
/// The platform of containers.
const PLATFORM: &str = "linux/amd64";

/// Returns the platform to name in requests to an engine of this architecture, unless it is its own. Docker Desktop and
/// `podman machine` emulate it on ARM.
pub(crate) fn find_platform(engine: &str) -> Option<&'static str> {
    let is_own = engine.is_empty() || is_of_guest(engine);
    (!is_own).then_some(PLATFORM)
}

/// Returns whether the guest runs on an architecture.
pub(crate) fn is_of_guest(architecture: &str) -> bool {
    // The kernel's name, which some engines report.
    [ARCHITECTURE, "x86_64"].contains(&architecture)
}

/// Checks that there is a guest for the architecture of an image.
///
/// # Errors
/// [`Code::Unsupported`] if not.
pub(crate) fn check_architecture(reference: &str, architecture: &str) -> Result<()> {
    if architecture.is_empty() || is_of_guest(architecture) {
        return Ok(());
    }
    let message = format!(
        "the image `{reference}` is for {architecture}, and koze's guest is for {ARCHITECTURE} only: pull or build it with `--platform {PLATFORM}`"
    );
    Err(Error::new(Code::Unsupported, message))
}

/// Returns whether the labels of a container are those of a sandbox in a state directory.
pub(crate) fn is_of(labels: &HashMap<String, String>, id: &SandboxId, state: &str) -> bool {
    let has = |name: &str, value: &str| labels.get(name).is_some_and(|found| found == value);
    has(STATE_LABEL, state)
        && has(SESSION_LABEL, id.session.session())
        && has(SANDBOX_LABEL, id.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_images() {
        for (user, ids) in [
            ("", (0, 0)),
            ("root", (0, 0)),
            ("1000", (1000, 1000)),
            ("33:44", (33, 44)),
            ("1000:root", (1000, 0)),
            ("node", (UNKNOWN_USER, UNKNOWN_USER)),
            ("root:root", (0, 0)),
        ] {
            assert_eq!(parse_user(user), ids, "{user}");
        }
    }

    #[test]
    fn the_archive_has_the_guest_and_the_directories_of_the_user() {
        let packed = pack_guest(b"guest", "7:8").unwrap();
        let mut archive = tar::Archive::new(&packed[..]);
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            (path, header.uid().unwrap(), header.gid().unwrap(), header.mode().unwrap())
        });
        let entries: Vec<_> = entries.collect();
        assert!(entries.contains(&(GUEST_PATH.to_owned(), 0, 0, 0o755)), "{entries:?}");
        assert!(entries.contains(&("home/user".to_owned(), 7, 8, 0o755)), "{entries:?}");
        assert!(entries.contains(&("mnt/user-data/outputs".to_owned(), 7, 8, 0o755)), "{entries:?}");
    }

    #[test]
    fn an_engine_of_another_architecture_is_asked_for_that_of_the_guest() {
        for own in ["amd64", "x86_64", ""] {
            assert_eq!(find_platform(own), None);
        }
        assert_eq!(find_platform("arm64"), Some("linux/amd64"));
        check_architecture("python:3.12", "amd64").unwrap();
        let error = check_architecture("python:3.12", "arm64").unwrap_err();
        assert!(error.message.contains("`--platform linux/amd64`"), "{error}");
    }
}
