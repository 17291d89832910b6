//! Commands and events of the `DevTools` protocol, over one connection.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Wire;
use crate::error::{Code, Error, Result};
use crate::time::Start;

/// The maximum number of events that are kept until they are needed.
const EVENTS: usize = 4096;
/// The events that are kept.
const AWAITED: &[&str] = &[
    "Page.frameRequestedNavigation",
    "Page.frameStartedLoading",
    "Page.frameStoppedLoading",
    "Page.lifecycleEvent",
];
/// How many characters of a browser's message an error repeats.
const SHOWN: usize = 300;

/// The client of a browser, during one call.
pub(super) struct Client<W: Wire> {
    pub(super) wire: W,
    /// The session of the page, once it is attached.
    session: Option<String>,
    events: VecDeque<Event>,
    /// Whether the process of the page has crashed, or the page was closed.
    crashed: bool,
    start: Start,
    time: Duration,
    /// Whether nothing is in progress in the page.
    settled: bool,
}

/// An event of the page.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    pub(super) method: String,
    #[serde(default)]
    pub(super) params: Value,
}

/// A message of the browser.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    id: Option<u32>,
    session_id: Option<String>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    result: Option<Value>,
    error: Option<Refused>,
}

#[derive(Deserialize)]
struct Refused {
    message: String,
}

/// The outcome of a command.
pub(super) enum Done {
    /// Its result.
    Result(Value),
    /// The browser refused it, for this reason.
    Refused(String),
    /// There was no answer in time.
    Late,
    /// The process of the page has crashed, or the page was closed.
    Crashed,
}

impl<W: Wire> Client<W> {
    /// Creates a client. `time` is the timeout for all its commands together.
    pub(super) fn new(wire: W, start: Start, time: Duration) -> Self {
        Client { wire, session: None, events: VecDeque::new(), crashed: false, start, time, settled: true }
    }

    /// Returns the time that is left.
    pub(super) fn time_left(&self) -> Duration {
        self.time.saturating_sub(self.start.elapsed())
    }

    /// Sets the session of the page.
    pub(super) fn set_session(&mut self, session: String) {
        self.session = Some(session);
        self.crashed = false;
        self.events.clear();
    }

    /// Sets whether nothing is in progress in the page. What is in progress is stopped when the client is dropped.
    pub(super) fn set_settled(&mut self, settled: bool) {
        self.settled = settled;
    }

    /// Sets the time that is left for commands.
    pub(super) fn set_time_left(&mut self, time: Duration) {
        self.time = self.start.elapsed() + time;
    }

    /// Returns whether the process of the page has crashed, or the page was closed.
    pub(super) fn has_crashed(&self) -> bool {
        self.crashed
    }

    /// Detaches from the page, and stops what is in progress in it. The browser then closes an open dialog of the page.
    pub(super) fn leave_page(&mut self) {
        self.crashed = false;
        let Some(session) = self.session.take() else { return };
        if !self.settled {
            for method in ["Runtime.terminateExecution", "Page.stopLoading"] {
                let _ = self.send_command(method, &json!({}), Some(&session));
            }
        }
        let _ = self.send_command("Target.detachFromTarget", &json!({ "sessionId": session }), None);
    }

    /// Sends a command to the browser. Its answer is ignored.
    pub(super) fn tell_browser(&mut self, method: &str, params: &Value) -> Result<()> {
        self.send_command(method, params, None).map(drop)
    }

    /// Sends a command to the page. Its answer is ignored.
    pub(super) fn tell_page(&mut self, method: &str, params: &Value) -> Result<()> {
        let session = self.session.clone();
        self.send_command(method, params, session.as_deref()).map(drop)
    }

    /// Sends a command to the browser itself, and returns its result.
    pub(super) async fn call_browser(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.send_command(method, &params, None)?;
        match self.wait_for_answer(id, self.time_left()).await? {
            Done::Result(result) => Ok(result),
            Done::Refused(why) => Err(refused_error(method, &why)),
            Done::Late | Done::Crashed => Err(timeout_error()),
        }
    }

    /// Sends a command to the page, and returns its result.
    pub(super) async fn call_page(&mut self, method: &str, params: Value) -> Result<Value> {
        match self.page_within(method, &params, self.time_left()).await? {
            Done::Result(result) => Ok(result),
            Done::Refused(why) => Err(refused_error(method, &why)),
            Done::Late => Err(timeout_error()),
            Done::Crashed => Err(crashed_error()),
        }
    }

    /// Sends a command to the page, and waits for its result up to a timeout.
    pub(super) async fn page_within(&mut self, method: &str, params: &Value, wait: Duration) -> Result<Done> {
        let session = self.session.clone();
        let id = self.send_command(method, params, session.as_deref())?;
        self.wait_for_answer(id, wait).await
    }

    /// Returns the next event of the page, or `None` if none arrives in time.
    pub(super) async fn next_event(&mut self, wait: Duration) -> Result<Option<Event>> {
        let start = Start::now();
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if self.crashed {
                return Err(crashed_error());
            }
            let left = wait.saturating_sub(start.elapsed());
            let Some(text) = self.wire.receive(left).await? else { return Ok(None) };
            self.handle_message(&text, None);
            if left.is_zero() && self.events.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Removes and returns the events that have been received.
    pub(super) fn drain_events(&mut self) -> impl Iterator<Item = Event> {
        self.events.drain(..)
    }

    async fn wait_for_answer(&mut self, id: u32, wait: Duration) -> Result<Done> {
        let start = Start::now();
        loop {
            if self.crashed {
                return Ok(Done::Crashed);
            }
            let left = wait.saturating_sub(start.elapsed());
            let Some(text) = self.wire.receive(left).await? else { return Ok(Done::Late) };
            if let Some(done) = self.handle_message(&text, Some(id)) {
                return Ok(done);
            }
            // A page can send events without end.
            if left.is_zero() {
                return Ok(Done::Late);
            }
        }
    }

    /// Sends a command, and returns its number.
    fn send_command(&mut self, method: &str, params: &Value, session: Option<&str>) -> Result<u32> {
        // Unique among all clients, because a client may receive answers to commands of an earlier one that was dropped.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed) & 0x3fff_ffff;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        self.wire.send(command.to_string())?;
        Ok(id)
    }

    /// Processes a message. Returns the outcome, if it answers the command with this number.
    fn handle_message(&mut self, text: &str, id: Option<u32>) -> Option<Done> {
        // Other messages are for other clients, or belong to a later version of the protocol.
        let message: Message = serde_json::from_str(text).ok()?;
        if message.id.is_some() {
            if message.id != id {
                return None;
            }
            return Some(match (message.result, message.error) {
                (Some(result), _) => Done::Result(result),
                (None, Some(error)) => Done::Refused(error.message),
                (None, None) => Done::Refused("no reason given".to_owned()),
            });
        }
        let (method, params) = (message.method?, message.params);
        let ours = self.session.as_deref()?;
        if method == "Target.detachedFromTarget" && params["sessionId"] == ours {
            self.crashed = true;
        }
        if message.session_id.as_deref() != Some(ours) {
            return None;
        }
        match method.as_str() {
            "Inspector.targetCrashed" => self.crashed = true,
            "Page.javascriptDialogOpening" => {
                // No user sees the dialog. Leaving a page is confirmed, and every other question is dismissed.
                let accept = matches!(params["type"].as_str(), Some("alert" | "beforeunload"));
                let _ = self.tell_page("Page.handleJavaScriptDialog", &json!({ "accept": accept }));
            }
            _ if AWAITED.contains(&method.as_str()) => {
                if self.events.len() >= EVENTS {
                    self.events.pop_front();
                }
                self.events.push_back(Event { method, params });
            }
            _ => {}
        }
        None
    }
}

impl<W: Wire> Drop for Client<W> {
    fn drop(&mut self) {
        self.leave_page();
    }
}

/// Returns the error for a command that the browser refused.
pub(super) fn refused_error(method: &str, why: &str) -> Error {
    let why = beginning_of(why);
    Error::new(
        Code::Unavailable,
        format!("the browser cannot do this now: {why} ({method}). Try again, or navigate again"),
    )
}

/// Returns the error for a call that has used up its time.
pub(super) fn timeout_error() -> Error {
    let text = format!(
        "the page did not answer within {} s, and what it was doing was stopped: wait for less, use smaller steps, or navigate again",
        super::TIME.as_secs()
    );
    Error::new(Code::Timeout, text)
}

/// Returns the error for a page whose process has crashed.
pub(super) fn crashed_error() -> Error {
    let text = "the page crashed, perhaps because it needs too much memory, and was closed: navigate again, or to another page";
    Error::new(Code::Unavailable, text)
}

/// Returns the beginning of a text.
pub(super) fn beginning_of(text: &str) -> &str {
    text.char_indices().nth(SHOWN).map_or(text, |(at, _)| &text[..at])
}
