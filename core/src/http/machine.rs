//! The bodies of the routes that only hosts with a list of their sessions have: `koze serve` and `koze ui`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Query;
use crate::error::{Code, Error, Result};
use crate::sandbox::Status;

/// How many entries of the egress journal a response has, unless the request says otherwise.
const DEFAULT_EGRESS: usize = 100;
/// How many entries of the egress journal a response has at most.
const MAX_EGRESS: usize = 1000;

/// The sessions of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SessionList {
    /// The sessions that have sandboxes or calls in the journal, sorted by name.
    pub sessions: Vec<SessionEntry>,
}

/// A session, its sandboxes and its calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SessionEntry {
    /// Its name.
    pub name: String,
    /// Its sandboxes, sorted by name.
    pub sandboxes: Vec<SessionSandbox>,
    /// The number of its calls in the journal.
    pub calls: u64,
    /// When the call that ended last started, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_call: Option<u64>,
}

/// A sandbox in the list of the sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SessionSandbox {
    /// Its name.
    pub name: String,
    /// The name of its image.
    pub image: String,
    /// Whether it runs or sleeps.
    #[cfg_attr(test, schemars(with = "super::body::StatusName"))]
    pub status: Status,
    /// When it was created, in milliseconds since 1970, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<i64>,
    /// When it last started or fell asleep, in milliseconds since 1970.
    pub used: i64,
}

/// What the sandboxes of a session use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct UsageList {
    /// Those that run, sorted by name.
    pub usage: Vec<SandboxUsage>,
}

/// What a sandbox uses. What cannot be measured is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SandboxUsage {
    /// Its name.
    pub sandbox: String,
    /// The memory of its programs, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The processor time of its programs since it was started, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_ms: Option<u64>,
    /// The size of its files, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
}

/// The egress journal of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct EgressList {
    /// The newest attempts to reach a host, the newest last.
    pub egress: Vec<EgressEntry>,
}

/// An attempt to reach a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct EgressEntry {
    /// When it happened, in milliseconds since 1970.
    pub time: u64,
    /// The sandbox; `(scripts)` for scripts, and `(browser)` for their browser.
    pub sandbox: String,
    /// The requested host.
    pub host: String,
    /// The port, or 0 if a program only looked the host up.
    pub port: u16,
    /// The address that was connected to, or the last one that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Whether it was allowed.
    pub allowed: bool,
    /// The rule that decided.
    pub rule: String,
    /// The host that was requested within a tunnel, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_within: Option<String>,
}

/// Returns how many entries of the egress journal a request asks for.
///
/// # Errors
/// [`Code::InvalidInput`] if `limit` is not a number from 1 to 1,000.
pub fn egress_limit(query: &Query) -> Result<usize> {
    let limit = query.get("limit").map_or(Some(DEFAULT_EGRESS), |limit| limit.parse().ok());
    limit.filter(|limit| (1..=MAX_EGRESS).contains(limit)).ok_or_else(|| {
        Error::new(Code::InvalidInput, format!("`limit` must be a number from 1 to {MAX_EGRESS}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_checked() {
        let limit = |text: &str| egress_limit(&Query::from([("limit".into(), text.into())]));
        assert_eq!(egress_limit(&Query::new()), Ok(DEFAULT_EGRESS));
        assert_eq!((limit("1"), limit("1000")), (Ok(1), Ok(1000)));
        for text in ["", "0", "-1", "1001", "x"] {
            assert_eq!(limit(text).unwrap_err().message, "`limit` must be a number from 1 to 1000", "{text}");
        }
    }
}
