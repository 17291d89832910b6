//! The observable state of a sandbox.

use std::collections::VecDeque;

use serde::Serialize;
use tokio::sync::watch;

use crate::sandbox::{Output, Status};

/// The number of commands kept.
const COMMANDS: usize = 50;
/// The number of bytes kept of each text of a command, from the end.
const TEXT: usize = 8 * 1024;

/// The state of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct State {
    /// Whether it runs, sleeps or is destroyed.
    pub status: Lifecycle,
    /// The last 50 commands, newest last.
    pub history: VecDeque<Ran>,
    /// The last URL that `browse` returned.
    pub preview_url: Option<String>,
}

/// Whether a sandbox runs, sleeps or is destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lifecycle {
    /// It is running.
    Running,
    /// It is asleep and wakes with the next call. Local sandboxes keep their files; files in containers are deleted.
    Sleeping,
    /// It was destroyed.
    Destroyed,
}

impl From<Status> for Lifecycle {
    fn from(status: Status) -> Self {
        match status {
            Status::Running => Lifecycle::Running,
            Status::Sleeping => Lifecycle::Sleeping,
        }
    }
}

/// A command that ran. Only the last 8 KiB of each text are kept. Bytes that are not UTF-8 are replaced by U+FFFD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ran {
    /// The command.
    pub command: String,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Its exit code.
    pub exit_code: i32,
    /// Whether its timeout expired.
    pub timed_out: bool,
}

/// The state shared by all handles to a sandbox.
#[derive(Debug)]
pub struct Observed(watch::Sender<State>);

impl Default for Observed {
    /// Creates the state of a sandbox that runs.
    fn default() -> Self {
        let state = State { status: Lifecycle::Running, history: VecDeque::new(), preview_url: None };
        Observed(watch::Sender::new(state))
    }
}

impl Observed {
    /// Returns the current state.
    pub fn state(&self) -> State {
        self.0.borrow().clone()
    }

    /// Subscribes to the state.
    pub(super) fn subscribe(&self) -> watch::Receiver<State> {
        let mut changes = self.0.subscribe();
        changes.mark_changed();
        changes
    }

    /// Records a command.
    pub fn ran(&self, command: &str, output: &Output) {
        let ran = Ran {
            command: decode_tail(command.as_bytes()),
            stdout: decode_tail(&output.stdout),
            stderr: decode_tail(&output.stderr),
            exit_code: output.exit_code,
            timed_out: output.timed_out,
        };
        self.0.send_modify(|state| {
            if state.history.len() == COMMANDS {
                state.history.pop_front();
            }
            state.history.push_back(ran);
        });
    }

    /// Records the URL of an exposed port.
    pub fn exposed(&self, url: &str) {
        self.0.send_modify(|state| state.preview_url = Some(url.to_owned()));
    }

    /// Records whether the sandbox runs. A destroyed sandbox stays destroyed and has no URL.
    pub fn set_lifecycle(&self, lifecycle: Lifecycle) {
        self.0.send_if_modified(|state| {
            if state.status == lifecycle || state.status == Lifecycle::Destroyed {
                return false;
            }
            state.status = lifecycle;
            if lifecycle == Lifecycle::Destroyed {
                state.preview_url = None;
            }
            true
        });
    }
}

fn decode_tail(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TEXT)..]).into_owned()
}
