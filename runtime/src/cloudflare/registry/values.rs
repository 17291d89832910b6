//! The values of a session's store, in the `SQLite` database of its registry.

use koze_core::store::{Expected, Range};
use serde::{Deserialize, Serialize};

/// A request about values. Bytes are base64.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum Request {
    Get { key: String },
    Put { key: String, bytes: String, expected: Expected },
    Delete { key: String, expected: Expected },
    List { range: Range },
}

/// A value in a response.
#[derive(Debug, Deserialize)]
pub(in super::super) struct Stored {
    pub(in super::super) bytes: String,
    pub(in super::super) version: u64,
}
