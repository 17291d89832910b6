//! The registry of a session's sandboxes: a Durable Object with `SQLite`, one per session, which outlives every
//! isolate.
//!
//! `koze build` generates its class, `KozeSessions` in `sessions.mjs`, if the package sets `registry = true`. It is called
//! when a sandbox is created, destroyed, listed, or first used in an isolate, but not for calls to a known sandbox. In the background,
//! each tool call adds its record to the journal there.

pub(super) mod calls;
pub(super) mod values;

use std::fmt;

use futures_util::future::LocalBoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use worker::{ObjectNamespace, Request, console_error, web_sys};

use koze_core::error::{Code, Error, Result};
use koze_core::id::{SandboxName, SessionId};

pub use koze_core::contract::REGISTRY_BINDING as BINDING;

/// The URL of requests to the object. It is never resolved.
const URL: &str = "https://koze-sessions/";

/// The record of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The name of its profile.
    #[serde(rename = "image")]
    pub(super) profile: String,
    /// Its idle timeout.
    pub(super) sleep_after_ms: Option<u32>,
    /// The name of its size, if it was chosen.
    #[serde(default)]
    pub(super) size: Option<String>,
    /// The time of its last use, in milliseconds since the epoch.
    pub(super) used: u64,
}

/// A request to the object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Ask {
    /// The record of a sandbox.
    Find { name: String },
    /// Register a sandbox, unless it exists or the limit is reached. Returns the record of an existing one.
    Enter { name: String, record: Record, at_most: usize, at_most_of_image: Option<u32> },
    /// Record the last use of a sandbox.
    Used { name: String, at: u64 },
    /// Remove a sandbox.
    Leave { name: String },
    /// List all sandboxes, ordered by name.
    List,
    /// A request about the values of the session's store.
    Values(values::Request),
    /// A request about the journal of tool calls.
    Calls(calls::Request),
}

/// A client of a session's registry.
#[derive(Debug)]
pub(super) struct Registry {
    namespace: ObjectNamespace,
    session: String,
}

impl Registry {
    pub(super) fn new(namespace: ObjectNamespace, session: &SessionId) -> Self {
        Registry { namespace, session: session.key() }
    }

    pub(super) async fn find(&self, name: &SandboxName) -> Result<Option<Record>> {
        self.ask(&Ask::Find { name: name.to_string() }).await
    }

    /// Registers a sandbox. Returns its record if it already exists.
    pub(super) async fn enter(
        &self,
        name: &SandboxName,
        record: &Record,
        at_most: usize,
        at_most_of_image: Option<u32>,
    ) -> Result<Option<Record>> {
        let (name, record) = (name.to_string(), record.clone());
        self.ask(&Ask::Enter { name, record, at_most, at_most_of_image }).await
    }

    pub(super) async fn used(&self, name: &SandboxName, at: u64) -> Result<()> {
        self.ask(&Ask::Used { name: name.to_string(), at }).await
    }

    pub(super) async fn leave(&self, name: &SandboxName) -> Result<()> {
        self.ask(&Ask::Leave { name: name.to_string() }).await
    }

    pub(super) async fn list(&self) -> Result<Vec<(SandboxName, Record)>> {
        let all: Vec<(String, Record)> = self.ask(&Ask::List).await?;
        all.into_iter().map(|(name, record)| Ok((SandboxName::new(&name)?, record))).collect()
    }

    pub(super) async fn values<T: DeserializeOwned>(&self, request: values::Request) -> Result<T> {
        self.ask(&Ask::Values(request)).await
    }

    pub(super) async fn calls<T: DeserializeOwned>(&self, request: calls::Request) -> Result<T> {
        self.ask(&Ask::Calls(request)).await
    }

    async fn ask<T: DeserializeOwned>(&self, ask: &Ask) -> Result<T> {
        let body = serde_json::to_string(ask).map_err(|error| failed(&error))?;
        let answer = self.send(&body).await.map_err(|error| failed(&error))?;
        serde_json::from_str::<Result<T>>(&answer).map_err(|error| failed(&error))?
    }

    /// Sends a request, and returns the body of the response. Boxed as the calls of a sandbox's object.
    fn send<'a>(&'a self, body: &'a str) -> LocalBoxFuture<'a, worker::Result<String>> {
        Box::pin(self.post(body))
    }

    async fn post(&self, body: &str) -> worker::Result<String> {
        // worker's own type for the options brings the properties of Cloudflare's requests, which are 4 KiB of an upload.
        let init = web_sys::RequestInit::new();
        init.set_method("POST");
        init.set_body(&body.into());
        let request = Request::from(web_sys::Request::new_with_str_and_init(URL, &init)?);
        let stub = self.namespace.get_by_name(&self.session)?;
        stub.fetch_with_request(request).await?.text().await
    }
}

fn failed(error: &dyn fmt::Display) -> Error {
    console_error!("koze: the registry of sandboxes threw: {error}");
    Error::new(Code::Unavailable, "the registry of sandboxes does not answer: try again later")
}

/// Returns the error for a Worker without a registry.
pub(super) fn missing() -> Error {
    let message = "this Worker does not record its sandboxes: set `registry = true` under \
        `[package.metadata.koze]` in Cargo.toml, run `koze build`, and deploy";
    Error::new(Code::Unsupported, message)
}

/// Returns the error for a journal of a Worker without a registry.
pub(super) fn missing_journal() -> Error {
    let message = "this Worker has no journal of tool calls: set `registry = true` under `[package.metadata.koze]` in Cargo.toml, \
        run `koze build`, and deploy";
    Error::new(Code::Unsupported, message)
}
