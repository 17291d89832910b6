//! Where sandboxes come from.

pub mod cloudflare;
#[cfg(all(feature = "local", target_os = "linux"))]
pub mod local;
pub mod memory;

use std::future::Future;
use std::time::Duration;

use crate::error::Result;
use crate::id::{SandboxId, SandboxName, SessionId};
use crate::sandbox::{MaybeSend, MaybeSync, Sandbox, Status};

/// Opens sandboxes, and knows which there are: what it knows survives a restart of the host process.
pub trait Provider: MaybeSend + MaybeSync + 'static {
    /// Its sandboxes.
    type Sandbox: Sandbox;

    /// What whoever makes a sandbox has to know of those of this provider, if there is anything.
    fn note(&self) -> Option<&str> {
        None
    }

    /// The sandbox of this name: the one that is there, else a new one, made as `template` says.
    ///
    /// Of several callers at once, one makes it, and they all get the same.
    fn open(
        &self,
        id: &SandboxId,
        template: &Template,
    ) -> impl Future<Output = Result<Opened<Self::Sandbox>>> + MaybeSend;

    /// The sandbox of this name, if there is one; none is made.
    fn find(&self, id: &SandboxId)
    -> impl Future<Output = Result<Option<Opened<Self::Sandbox>>>> + MaybeSend;

    /// The sandboxes of a session, in the order of their names.
    fn list(&self, session: &SessionId) -> impl Future<Output = Result<Vec<Info>>> + MaybeSend;
}

/// What a new sandbox is made as.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Template {
    /// The image.
    pub image: Image,
    /// How long it may idle before it sleeps.
    pub sleep_after: Duration,
}

/// An image: one of the project's sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Image {
    /// The name of the sandbox that declares it, without `.sandbox.rs`: `python`.
    pub name: String,
    /// What it is built from: a registry reference, or the path of a Dockerfile.
    pub reference: String,
    /// Whether it reaches the internet.
    pub internet: bool,
    /// The hosts it may reach; empty means any, where it reaches the internet at all.
    pub allowed_hosts: Vec<String>,
    /// The hosts it may not reach.
    pub denied_hosts: Vec<String>,
    /// Variables in it.
    pub env: Vec<(String, String)>,
    /// How large it is.
    pub size: Size,
    /// How long its sandboxes may idle before they sleep, where the image says so.
    #[serde(default)]
    pub sleep_after: Option<Duration>,
}

impl Image {
    /// An image that says nothing beside what it must: no internet, no variables.
    pub fn new(name: impl Into<String>, reference: impl Into<String>, size: Size) -> Self {
        Image {
            name: name.into(),
            reference: reference.into(),
            internet: false,
            allowed_hosts: Vec::new(),
            denied_hosts: Vec::new(),
            env: Vec::new(),
            size,
            sleep_after: None,
        }
    }
}

/// How large a sandbox is: what Cloudflare's instance types give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Size {
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Disk in MB.
    pub disk_mb: u32,
}

/// A sandbox that was opened.
#[derive(Debug)]
pub struct Opened<S> {
    /// The sandbox.
    pub sandbox: S,
    /// Its image's name, which is not the template's where it was there already.
    pub image: String,
    /// Whether it was made now.
    pub created: bool,
}

/// What is known of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Its name in the session.
    pub name: SandboxName,
    /// Its image's name.
    pub image: String,
    /// Whether it runs.
    pub status: Status,
}
