//! Where a container engine listens: its variables, Docker's contexts, and the sockets of an ordinary installation.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use koze_core::error::{Code, Error, Result};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// A container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// Docker, or what speaks its API at `DOCKER_HOST`.
    Docker,
    /// podman.
    Podman,
}

impl EngineKind {
    /// Returns the name of its program.
    pub fn program(self) -> &'static str {
        match self {
            EngineKind::Docker => "docker",
            EngineKind::Podman => "podman",
        }
    }

    /// Returns the engine whose program has this name.
    pub fn from_program(name: &str) -> Option<Self> {
        [EngineKind::Docker, EngineKind::Podman].into_iter().find(|kind| kind.program() == name)
    }

    /// Returns the engine that this machine has: Docker, unless only podman's socket is there. Asks no engine.
    pub fn find_installed() -> Self {
        // An address that the user has set may be on another machine.
        let is_there = |kind| {
            find_addresses(kind).is_ok_and(|all| {
                let is_socket = |address: &Address| {
                    address.url.strip_prefix("unix://").is_none_or(|path| Path::new(path).exists())
                };
                all.iter().any(is_socket)
            })
        };
        let is_podman = !is_there(EngineKind::Docker) && is_there(EngineKind::Podman);
        if is_podman { EngineKind::Podman } else { EngineKind::Docker }
    }

    /// Says how to start it.
    pub(crate) fn how_to_start(self) -> &'static str {
        match (self, cfg!(target_os = "linux")) {
            (EngineKind::Docker, true) => {
                "start it with `sudo systemctl start docker`, or install it and add yourself to the group `docker`"
            }
            (EngineKind::Docker, false) => "start Docker Desktop",
            (EngineKind::Podman, true) => {
                "start its socket with `systemctl --user start podman.socket`, or run `podman system service --time=0 unix://PATH` and set `CONTAINER_HOST`"
            }
            (EngineKind::Podman, false) => "run `podman machine start`",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}

/// The variables that say where an engine listens. A background process needs them, too.
pub const VARIABLES: [&str; 7] = [
    "CONTAINER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "HOME",
    "USERPROFILE",
    "XDG_RUNTIME_DIR",
];

/// Where an engine may listen.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// The address.
    pub(crate) url: String,
    /// How errors name it: models read them, so they contain no path of this machine that a user has chosen.
    pub(crate) label: String,
}

/// Returns the addresses to try, the best one first.
///
/// # Errors
/// [`Code::InvalidInput`] if a Docker context does not exist or cannot be used.
pub(crate) fn find_addresses(kind: EngineKind) -> Result<Vec<Address>> {
    let named = match kind {
        EngineKind::Docker => match variable("DOCKER_HOST") {
            Some(url) => Some((url, "the address in `DOCKER_HOST`")),
            None => find_context()?.map(|url| (url, "the address of the Docker context")),
        },
        EngineKind::Podman => variable("CONTAINER_HOST").map(|url| (url, "the address in `CONTAINER_HOST`")),
    };
    Ok(match named {
        Some((url, label)) => vec![Address { url, label: label.to_owned() }],
        None => default_addresses(kind),
    })
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn home() -> Option<PathBuf> {
    variable(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).map(PathBuf::from)
}

fn default_addresses(kind: EngineKind) -> Vec<Address> {
    let mut addresses = Vec::new();
    if cfg!(windows) {
        let url = match kind {
            EngineKind::Docker => "npipe:////./pipe/docker_engine",
            EngineKind::Podman => "npipe:////./pipe/podman-machine-default",
        };
        addresses.push(Address { url: url.to_owned(), label: url.to_owned() });
        return addresses;
    }
    let mut add_in = |dir: Option<PathBuf>, name: &str, path: &str| {
        addresses.extend(dir.map(|dir| Address {
            url: format!("unix://{}", dir.join(path).display()),
            label: format!("{name}/{path}"),
        }));
    };
    let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    match kind {
        EngineKind::Docker => {
            add_in(Some("/var/run".into()), "/var/run", "docker.sock");
            // Rootless Docker, and Docker Desktop on a Mac.
            add_in(runtime, "$XDG_RUNTIME_DIR", "docker.sock");
            add_in(home(), "~", ".docker/run/docker.sock");
        }
        EngineKind::Podman => {
            add_in(runtime, "$XDG_RUNTIME_DIR", "podman/podman.sock");
            add_in(Some("/run".into()), "/run", "podman/podman.sock");
            add_in(home(), "~", ".local/share/containers/podman/machine/podman.sock");
            if cfg!(target_os = "macos") {
                // `podman machine` of version 5.
                add_in(Some(env::temp_dir()), "$TMPDIR", "podman/podman-machine-default-api.sock");
            }
        }
    }
    addresses
}

/// The part of `config.json` that selects a context.
#[derive(Deserialize)]
struct Config {
    #[serde(rename = "currentContext")]
    current_context: Option<String>,
}

/// The part of a context's `meta.json` that says where its engine listens.
#[derive(Deserialize)]
struct Context {
    #[serde(rename = "Endpoints", default)]
    endpoints: std::collections::HashMap<String, Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    #[serde(rename = "Host")]
    host: Option<String>,
}

/// Returns the address of the Docker context that is in use, if it is not the default one.
fn find_context() -> Result<Option<String>> {
    let config = variable("DOCKER_CONFIG").map(PathBuf::from).or_else(|| Some(home()?.join(".docker")));
    let Some(config) = config else { return Ok(None) };
    let current = || -> Option<String> {
        let text = std::fs::read(config.join("config.json")).ok()?;
        serde_json::from_slice::<Config>(&text).ok()?.current_context
    };
    match variable("DOCKER_CONTEXT").or_else(current) {
        Some(name) if !name.is_empty() && name != "default" => read_context(&config, &name).map(Some),
        _ => Ok(None),
    }
}

fn read_context(config: &Path, name: &str) -> Result<String> {
    let directory = HEXLOWER.encode(&Sha256::digest(name.as_bytes()));
    let invalid = |why: &str| {
        let message = format!(
            "the Docker context `{name}` {why}: choose another one with `docker context use`, or set `DOCKER_HOST`"
        );
        Error::new(Code::InvalidInput, message)
    };
    let text = std::fs::read(config.join("contexts/meta").join(directory).join("meta.json"))
        .map_err(|error| invalid("cannot be read").with_source(error))?;
    let context: Context =
        serde_json::from_slice(&text).map_err(|error| invalid("is not valid").with_source(error))?;
    let host = context.endpoints.get("docker").and_then(|endpoint| endpoint.host.clone());
    host.ok_or_else(|| invalid("has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_found_by_the_hash_of_its_name() {
        let config = std::env::temp_dir().join(format!("koze-context-{}", std::process::id()));
        let hash = HEXLOWER.encode(&Sha256::digest(b"colima"));
        let dir = config.join("contexts/meta").join(hash);
        std::fs::create_dir_all(&dir).unwrap();
        let text = r#"{"Name":"colima","Endpoints":{"docker":{"Host":"unix:///x/docker.sock","SkipTLSVerify":false}}}"#;
        std::fs::write(dir.join("meta.json"), text).unwrap();
        assert_eq!(read_context(&config, "colima").unwrap(), "unix:///x/docker.sock");
        let missing = read_context(&config, "../colima").unwrap_err();
        assert_eq!(missing.code, Code::InvalidInput);
        std::fs::write(dir.join("meta.json"), "{}").unwrap();
        assert!(read_context(&config, "colima").unwrap_err().message.contains("has no address"));
        std::fs::remove_dir_all(&config).unwrap();
    }

    #[test]
    fn engines_have_the_names_of_their_programs() {
        for kind in [EngineKind::Docker, EngineKind::Podman] {
            assert_eq!(EngineKind::from_program(kind.program()), Some(kind));
        }
        assert_eq!(EngineKind::from_program("host"), None);
    }
}
