//! The tools, the sandboxes and the journal of a session.

use std::time::Duration;

use koze_core::http::{CreateSandbox, CreatedSandbox, EgressList, SandboxDetails, SandboxList};
use koze_core::journal::{Page, PageRequest};
use koze_core::{Result, ToolResult};
use serde::Serialize;
use ureq::http::Method;

use crate::Client;
use crate::request::{encode, read_text, to_json};

/// How long a server may take for a request that starts nothing.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

/// A session of a server: its tools and sandboxes.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) client: Client,
    pub(crate) name: String,
}

impl Session {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Session { client, name }
    }

    /// Returns the path of the session.
    pub(crate) fn path(&self) -> String {
        format!("/sessions/{}", encode(&self.name))
    }

    /// Returns the path of a sandbox.
    pub(crate) fn sandbox_path(&self, sandbox: &str) -> String {
        format!("{}/sandboxes/{}", self.path(), encode(sandbox))
    }

    /// Calls a tool of a toolset, or of the default one. The input is a JSON object.
    ///
    /// # Errors
    /// The errors of the request. Those of the tool are results.
    pub fn call(&self, tool: &str, input: &str, toolset: Option<&str>) -> Result<ToolResult> {
        let toolset = toolset.map(|toolset| format!("?tools={}", encode(toolset))).unwrap_or_default();
        self.client.post(&format!("{}/tools/{}{toolset}", self.path(), encode(tool)), input.as_bytes())
    }

    /// Lists the sandboxes.
    ///
    /// # Errors
    /// The errors of the request.
    pub fn sandboxes(&self) -> Result<SandboxList> {
        self.client.get_json(&format!("{}/sandboxes", self.path()))
    }

    /// Creates a sandbox unless it exists.
    ///
    /// # Errors
    /// The errors of the request.
    pub fn create_sandbox(&self, sandbox: &CreateSandbox) -> Result<CreatedSandbox> {
        self.client.post_json(&format!("{}/sandboxes", self.path()), sandbox)
    }

    /// Describes a sandbox.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if it does not exist, and the errors of the request.
    pub fn describe_sandbox(&self, name: &str) -> Result<SandboxDetails> {
        self.client.get_json(&self.sandbox_path(name))
    }

    /// Destroys a sandbox and deletes its files.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if it does not exist, and the errors of the request.
    pub fn destroy_sandbox(&self, name: &str) -> Result<()> {
        let response = self.client.send(Method::DELETE, &self.sandbox_path(name), &[], ())?;
        read_text(response).map(drop)
    }

    /// Returns a page of the journal of tool calls.
    ///
    /// # Errors
    /// [`Code::Unsupported`](koze_core::Code::Unsupported) if the server keeps no journal, and the errors of the request.
    pub fn calls(&self, request: PageRequest) -> Result<Page> {
        let since = request.since.map(|since| format!("&since={since}")).unwrap_or_default();
        self.client.get_json(&format!("{}/log?limit={}{since}", self.path(), request.limit))
    }

    /// Returns the newest `limit` attempts to reach a host, at most 1,000; the newest last.
    ///
    /// # Errors
    /// [`Code::Unsupported`](koze_core::Code::Unsupported) if the server has no egress journal, as a Worker, and the errors of the
    /// request.
    pub fn egress(&self, limit: usize) -> Result<EgressList> {
        self.client.get_json(&format!("{}/egress?limit={limit}", self.path()))
    }

    /// Sends JSON to a route that answers at once.
    pub(crate) fn post_control(&self, path: &str, body: &impl Serialize) -> Result<()> {
        let body = to_json(body)?;
        let headers = [("content-type", "application/json")];
        let response =
            self.client.send_within(Some(CONTROL_TIMEOUT), Method::POST, path, &headers, &body[..])?;
        read_text(response).map(drop)
    }
}
