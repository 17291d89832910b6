//! Messages of the Model Context Protocol, over streamable HTTP.

use std::io::BufReader;
use std::sync::{Mutex, PoisonError};

use koze_core::Result;
use serde_json::Value;
use ureq::http::header::CONTENT_TYPE;
use ureq::http::{Method, Response};
use ureq::{Body, BodyReader};

use crate::Session;
use crate::events::read_event;
use crate::request::{cut_off, encode, read_text};

/// The header with the session of the protocol.
const SESSION: &str = "mcp-session-id";

/// A client of the Model Context Protocol, which sends the messages of another one.
#[derive(Debug)]
pub struct McpClient {
    session: Session,
    path: String,
    /// What the server has chosen in its answer to `initialize`.
    chosen: Mutex<Chosen>,
}

#[derive(Debug, Clone, Default)]
struct Chosen {
    id: Option<String>,
    version: Option<String>,
}

impl Session {
    /// Returns a client of the Model Context Protocol for the tools of a toolset, or of the default one.
    pub fn mcp(&self, toolset: Option<&str>) -> McpClient {
        let toolset = toolset.map(|toolset| format!("&tools={}", encode(toolset))).unwrap_or_default();
        let path = format!("/mcp?session={}{toolset}", encode(&self.name));
        McpClient { session: self.clone(), path, chosen: Mutex::default() }
    }
}

impl McpClient {
    /// Sends a message. Returns the messages with which the server answers.
    ///
    /// # Errors
    /// The errors of the request.
    pub fn send(&self, message: &str) -> Result<McpMessages> {
        let Chosen { id, version } = self.chosen().clone();
        let mut headers =
            vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        headers.extend(id.as_deref().map(|id| (SESSION, id)));
        headers.extend(version.as_deref().map(|version| ("mcp-protocol-version", version)));
        let response = self.session.client.send(Method::POST, &self.path, &headers, message.as_bytes())?;
        if let Some(id) = header(&response, SESSION) {
            self.chosen().id = Some(id.to_owned());
        }
        let is_stream = header(&response, CONTENT_TYPE.as_str())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        if is_stream {
            return Ok(McpMessages::Events(BufReader::new(response.into_body().into_reader())));
        }
        let text = read_text(response)?;
        Ok(McpMessages::One((!text.trim().is_empty()).then_some(text)))
    }

    /// Ends the session of the protocol, if the server has begun one.
    ///
    /// # Errors
    /// The errors of the request. The server ends a session that nobody uses anyway.
    pub fn close(&self) -> Result<()> {
        let Some(id) = self.chosen().id.take() else { return Ok(()) };
        self.session.client.send(Method::DELETE, &self.path, &[(SESSION, id.as_str())], ()).map(drop)
    }

    /// Remembers the version that the server has chosen, if a message is its answer to `initialize`.
    pub fn note_answer(&self, message: &str) {
        let version = serde_json::from_str::<Value>(message)
            .ok()
            .and_then(|message| Some(message.pointer("/result/protocolVersion")?.as_str()?.to_owned()));
        if let Some(version) = version {
            self.chosen().version = Some(version);
        }
    }

    fn chosen(&self) -> std::sync::MutexGuard<'_, Chosen> {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// The messages with which a server answers, each as JSON.
pub enum McpMessages {
    /// At most one.
    One(Option<String>),
    /// Any number.
    Events(BufReader<BodyReader<'static>>),
}

impl std::fmt::Debug for McpMessages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpMessages").finish_non_exhaustive()
    }
}

impl Iterator for McpMessages {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            McpMessages::One(message) => message.take().map(Ok),
            McpMessages::Events(lines) => loop {
                match read_event(lines) {
                    Ok(Some(event)) if event.data.is_empty() => {}
                    Ok(Some(event)) => return Some(Ok(event.data)),
                    Ok(None) => return None,
                    Err(error) => return Some(Err(cut_off(&error))),
                }
            },
        }
    }
}
