//! What a session knows of its workspaces.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::sync::Mutex as AsyncMutex;

use super::limits::Gate;
use crate::error::Error;

/// How many workspaces of a session are opened or attached at the same time, unless it is set.
pub(crate) const MAX_OPENS: usize = 5;

/// What a session knows of its workspaces. It is not stored: after a restart, workspaces are attached on first use.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(super) gate: Arc<Gate>,
    known: Mutex<BTreeMap<String, Arc<Known>>>,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    /// Whether this process has attached it. Concurrent first calls attach it once.
    pub(super) attached: AsyncMutex<bool>,
    pub(super) state: Mutex<(Phase, Option<Error>)>,
}

/// The state of a workspace in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It has not been used yet.
    #[default]
    Declared,
    /// It is open.
    Open,
    /// It could not be opened or attached. The next call tries again.
    Failed,
    /// It was closed. The next call opens it again.
    Closed,
}

impl Registry {
    /// Creates a registry with the number of workspaces that are opened at the same time.
    pub(crate) fn new(max_opens: usize) -> Self {
        Registry { gate: Arc::new(Gate::new(max_opens)), known: Mutex::default() }
    }

    pub(super) fn find_or_insert(&self, name: &str) -> Arc<Known> {
        Arc::clone(
            self.known.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default(),
        )
    }
}

impl Known {
    pub(super) fn set_state(&self, phase: Phase, error: Option<Error>) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = (phase, error);
    }
}
