//! What can be observed of a sandbox.

use std::collections::VecDeque;

use serde::Serialize;
use tokio::sync::watch;

use crate::sandbox::{Output, Status};

/// How many commands are remembered.
const COMMANDS: usize = 50;
/// How many bytes of each text of a command: the last ones.
const TEXT: usize = 8 * 1024;

/// What a sandbox is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct State {
    /// Whether it runs.
    pub status: Life,
    /// The last 50 commands, the newest at the end.
    pub history: VecDeque<Ran>,
    /// The URL that `browse` gave last.
    pub preview_url: Option<String>,
}

/// Whether a sandbox runs, or is there at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Life {
    /// It runs.
    Running,
    /// It does not, and wakes with the next call. Local sandboxes keep their files meanwhile; those of containers are lost.
    Sleeping,
    /// It is gone for good.
    Destroyed,
}

impl From<Status> for Life {
    fn from(status: Status) -> Self {
        match status {
            Status::Running => Life::Running,
            Status::Sleeping => Life::Sleeping,
        }
    }
}

/// A command that ran. Of long texts the last 8 KiB are kept; bytes that are not UTF-8 stand as U+FFFD.
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
    /// Whether its time was up.
    pub timed_out: bool,
}

/// The state that all handles of a sandbox share.
#[derive(Debug)]
pub(crate) struct Observed(watch::Sender<State>);

impl Observed {
    pub(crate) fn new() -> Self {
        let state = State { status: Life::Running, history: VecDeque::new(), preview_url: None };
        Observed(watch::Sender::new(state))
    }

    pub(crate) fn state(&self) -> State {
        self.0.borrow().clone()
    }

    /// The state, and each that follows.
    pub(super) fn subscribe(&self) -> watch::Receiver<State> {
        let mut changes = self.0.subscribe();
        changes.mark_changed();
        changes
    }

    pub(crate) fn ran(&self, command: &str, output: &Output) {
        let ran = Ran {
            command: end(command.as_bytes()),
            stdout: end(&output.stdout),
            stderr: end(&output.stderr),
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

    pub(crate) fn exposed(&self, url: &str) {
        self.0.send_modify(|state| state.preview_url = Some(url.to_owned()));
    }

    /// Notes whether it runs. One that is destroyed stays so, and answers nowhere.
    pub(crate) fn lives(&self, life: Life) {
        self.0.send_if_modified(|state| {
            if state.status == life || state.status == Life::Destroyed {
                return false;
            }
            state.status = life;
            if life == Life::Destroyed {
                state.preview_url = None;
            }
            true
        });
    }
}

fn end(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TEXT)..]).into_owned()
}
