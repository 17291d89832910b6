//! The journal of a session's tool calls, in the `SQLite` database of its registry.

use koze_core::journal::PageRequest;
use serde::Serialize;

/// A request about the journal.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum Request {
    /// Add the record of a call, which is JSON.
    Record { entry: String },
    /// Return a page.
    Read(PageRequest),
}
