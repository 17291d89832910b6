//! The requests to a container engine, and its errors.

use std::fmt::Write as _;
use std::time::Duration;

use bollard::container::AttachContainerResults;
use bollard::errors::Error as EngineError;
use bollard::models::{ContainerCreateBody, ContainerInspectResponse, ContainerState};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, CreateImageOptionsBuilder,
    KillContainerOptionsBuilder, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
    StopContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::StreamExt as _;
use koze_core::error::{Code, Error, Result};

use crate::address::{Address, EngineKind, find_addresses};
use crate::container;

/// The timeout of a request that only asks for something, and of the start of an answer to any other.
const TIMEOUT_S: u64 = 120;
/// How long a socket has to answer when it is tried.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the end of a container is looked for.
const END_POLLS: usize = 200;
/// The pause between.
const END_PAUSE: Duration = Duration::from_millis(50);
/// The longest part of an engine's message that an error contains, in characters.
const MAX_MESSAGE: usize = 400;

/// A container engine.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    docker: Docker,
    kind: EngineKind,
    /// The platform to name in requests, on an engine of another architecture than the guest's.
    platform: Option<&'static str>,
}

/// What an engine knows of a container.
#[derive(Debug)]
pub(crate) struct Container {
    /// The state.
    pub(crate) state: ContainerState,
    /// The labels.
    pub(crate) labels: std::collections::HashMap<String, String>,
}

impl Api {
    /// Connects to the first address at which the engine answers.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if no engine answers. The message lists the addresses that were tried, and how to start the engine.
    pub(crate) async fn connect(kind: EngineKind, address: Option<&str>) -> Result<Self> {
        let mut tried = String::new();
        let addresses = match address {
            Some(url) => vec![Address { url: url.to_owned(), label: "its address".to_owned() }],
            None => find_addresses(kind)?,
        };
        for Address { url, label } in addresses {
            let why = match open(&url) {
                Ok(docker) => match tokio::time::timeout(PING_TIMEOUT, docker.ping()).await {
                    Ok(Ok(_)) => return Api { docker, kind, platform: None }.with_platform().await,
                    Ok(Err(error)) => describe(&error),
                    Err(_) => format!("no answer in {} seconds", PING_TIMEOUT.as_secs()),
                },
                Err(why) => why,
            };
            let path = url.split_once("://").map_or(url.as_str(), |(_, path)| path);
            let why = why.replace(path, &label);
            let _ = write!(tried, "\n  {label}: {why}");
        }
        let message = format!("{kind} does not answer: {}. Tried:{tried}", kind.how_to_start());
        Err(Error::new(Code::Unavailable, message))
    }

    /// Sets the platform of containers, which the engine emulates if it is not its own.
    async fn with_platform(self) -> Result<Self> {
        let version = self.docker.version().await;
        let version = version.map_err(|error| self.failed("tell its version", error))?;
        Ok(Api { platform: container::find_platform(version.arch.as_deref().unwrap_or_default()), ..self })
    }

    /// Returns whether containers are emulated, because the engine has another architecture than the guest.
    pub(crate) fn is_emulating(&self) -> bool {
        self.platform.is_some()
    }

    /// Returns which engine this is.
    pub(crate) fn kind(&self) -> EngineKind {
        self.kind
    }

    /// Returns a container, if it exists.
    pub(crate) async fn inspect(&self, name: &str) -> Result<Option<Container>> {
        let mut inspected = self.docker.inspect_container(name, None).await;
        for _ in 0..END_POLLS {
            // podman has a state that Docker does not know, `stopped`, until it has cleaned up after a container.
            if !matches!(inspected, Err(EngineError::JsonDataError { .. })) {
                break;
            }
            tokio::time::sleep(END_PAUSE).await;
            inspected = self.docker.inspect_container(name, None).await;
        }
        let found: ContainerInspectResponse = match inspected {
            Ok(found) => found,
            Err(error) if status(&error) == Some(404) => return Ok(None),
            Err(error) => return Err(self.failed("look at a container", error)),
        };
        let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
        Ok(Some(Container { state: found.state.unwrap_or_default(), labels }))
    }

    /// Returns the names of the containers that have a label, running or not.
    pub(crate) async fn list(&self, label: &str) -> Result<Vec<String>> {
        let filters = [("label", vec![label])].into();
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let listed = self.docker.list_containers(Some(options)).await;
        let listed = listed.map_err(|error| self.failed("list containers", error))?;
        Ok(listed
            .into_iter()
            .filter_map(|one| Some(one.names?.first()?.trim_start_matches('/').to_owned()))
            .collect())
    }

    /// Returns whether the engine has an image, with the user of its programs and its architecture.
    pub(crate) async fn find_image(&self, reference: &str) -> Result<Option<Image>> {
        match self.docker.inspect_image(reference).await {
            Ok(image) => Ok(Some(Image {
                user: image.config.and_then(|config| config.user).unwrap_or_default(),
                architecture: image.architecture.unwrap_or_default(),
            })),
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(error) => Err(self.failed("look for an image", error)),
        }
    }

    /// Pulls an image.
    pub(crate) async fn pull(&self, reference: &str) -> Result<()> {
        let failed = |error: EngineError| {
            let kind = self.kind;
            let why = describe(&error);
            let message = format!(
                "the image `{reference}` is not in the store of {kind}, and cannot be pulled: {why}. Pull it with `{kind} pull {reference}`"
            );
            Error::new(Code::Unavailable, message).with_source(error)
        };
        let mut options = CreateImageOptionsBuilder::default().from_image(reference);
        if let Some(platform) = self.platform {
            options = options.platform(platform);
        }
        let options = options.build();
        let mut steps = self.docker.create_image(Some(options), None, None);
        while let Some(step) = steps.next().await {
            step.map_err(failed)?;
        }
        Ok(())
    }

    /// Creates a container.
    pub(crate) async fn create(&self, name: &str, body: ContainerCreateBody) -> Result<()> {
        let mut options = CreateContainerOptionsBuilder::default().name(name);
        if let Some(platform) = self.platform {
            options = options.platform(platform);
        }
        let options = options.build();
        let created = self.docker.create_container(Some(options), body).await;
        created.map(drop).map_err(|error| self.failed("create a container", error))
    }

    /// Unpacks an archive at the root of a container.
    pub(crate) async fn upload(&self, name: &str, archive: Vec<u8>) -> Result<()> {
        let options = UploadToContainerOptionsBuilder::default().path("/").build();
        let body = bollard::body_full(archive.into());
        let uploaded = self.docker.upload_to_container(name, Some(options), body).await;
        uploaded.map_err(|error| self.failed("copy its guest into a container", error))
    }

    /// Attaches to the standard streams of a container, which need not run yet.
    pub(crate) async fn attach(&self, name: &str) -> Result<AttachContainerResults> {
        let options = AttachContainerOptionsBuilder::default()
            .stdin(true)
            .stdout(true)
            .stderr(true)
            .stream(true)
            .build();
        let attached = self.docker.attach_container(name, Some(options)).await;
        attached.map_err(|error| self.failed("attach to a container", error))
    }

    /// Starts a container.
    pub(crate) async fn start(&self, name: &str) -> Result<()> {
        let started = self.docker.start_container(name, None).await;
        started.map_err(|error| self.failed("start a container", error))
    }

    /// Stops a container: its first process has some seconds to exit. Succeeds if it does not run, or does not exist.
    pub(crate) async fn stop(&self, name: &str) -> Result<()> {
        let options = StopContainerOptionsBuilder::default().t(3).build();
        match self.docker.stop_container(name, Some(options)).await {
            Err(error) if !matches!(status(&error), Some(304 | 404)) => {
                Err(self.failed("stop a container", error))
            }
            _ => Ok(()),
        }
    }

    /// Kills a container. Succeeds if it does not run, or does not exist.
    pub(crate) async fn kill(&self, name: &str) -> Result<()> {
        let options = KillContainerOptionsBuilder::default().signal("SIGKILL").build();
        match self.docker.kill_container(name, Some(options)).await {
            Err(error) if !matches!(status(&error), Some(404 | 409)) => {
                Err(self.failed("kill a container", error))
            }
            _ => Ok(()),
        }
    }

    /// Waits until a container that was killed does not run any more.
    pub(crate) async fn wait(&self, name: &str) -> Result<()> {
        for _ in 0..END_POLLS {
            match self.inspect(name).await? {
                Some(found) if found.state.running == Some(true) => tokio::time::sleep(END_PAUSE).await,
                _ => return Ok(()),
            }
        }
        let kind = self.kind;
        let message = format!("the container `{name}` does not end: look at it with `{kind} inspect {name}`");
        Err(Error::new(Code::Unavailable, message))
    }

    /// Removes a container with its files, running or not. Succeeds if it does not exist.
    pub(crate) async fn remove(&self, name: &str) -> Result<()> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        match self.docker.remove_container(name, Some(options)).await {
            Err(error) if status(&error) != Some(404) => Err(self.failed("remove a container", error)),
            _ => Ok(()),
        }
    }

    /// Converts an error of the engine.
    fn failed(&self, task: &str, error: EngineError) -> Error {
        let kind = self.kind;
        let is_answer = status(&error).is_some() || matches!(error, EngineError::JsonDataError { .. });
        let message = if is_answer {
            format!("{kind} cannot {task}: {}", describe(&error))
        } else {
            let how = kind.how_to_start();
            format!(
                "{kind} stopped answering, so koze cannot {task}: {}. If it does not run, {how}",
                describe(&error)
            )
        };
        Error::new(Code::Unavailable, message).with_source(error)
    }
}

/// An image of an engine.
#[derive(Debug)]
pub(crate) struct Image {
    /// The user of its programs; empty for root.
    pub(crate) user: String,
    /// The architecture, such as `amd64`.
    pub(crate) architecture: String,
}

/// Creates the client of an address. Nothing is sent.
fn open(address: &str) -> std::result::Result<Docker, String> {
    let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
    let opened = match scheme {
        #[cfg(unix)]
        "unix" => Docker::connect_with_unix(address, TIMEOUT_S, API_DEFAULT_VERSION),
        #[cfg(windows)]
        "npipe" => Docker::connect_with_named_pipe(address, TIMEOUT_S, API_DEFAULT_VERSION),
        "tcp" | "http" if std::env::var_os("DOCKER_TLS_VERIFY").is_some_and(|value| !value.is_empty()) => {
            return Err("koze does not speak TLS with engines: use a socket, or a tunnel to it".to_owned());
        }
        "tcp" | "http" => Docker::connect_with_http(address, TIMEOUT_S, API_DEFAULT_VERSION),
        "ssh" => {
            return Err(
                "koze does not connect over SSH: forward the socket with `ssh -L`, and set its address"
                    .to_owned(),
            );
        }
        _ => {
            return Err("koze knows addresses of `unix://`, `npipe://` and `tcp://`".to_owned());
        }
    };
    opened.map_err(|error| describe(&error))
}

fn status(error: &EngineError) -> Option<u16> {
    match error {
        EngineError::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// Returns the message of an error and of its causes, on one line.
fn describe(error: &EngineError) -> String {
    let mut text = match error {
        EngineError::DockerResponseServerError { message, .. } => message.trim().to_owned(),
        EngineError::DockerStreamError { error } => error.trim().to_owned(),
        other => {
            let mut text = other.to_string();
            let mut cause = std::error::Error::source(other);
            while let Some(error) = cause {
                let next = error.to_string();
                if !text.contains(&next) {
                    let _ = write!(text, ": {next}");
                }
                cause = error.source();
            }
            text
        }
    };
    text = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    if text.chars().count() > MAX_MESSAGE {
        text = text.chars().take(MAX_MESSAGE).chain(['…']).collect();
    }
    text
}
