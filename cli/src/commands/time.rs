//! Times as text.

use chrono::{DateTime, SecondsFormat};

/// Returns a time in milliseconds since the epoch as text.
pub(super) fn time(milliseconds: u64) -> String {
    let time = i64::try_from(milliseconds).ok().and_then(DateTime::from_timestamp_millis);
    time.map_or_else(String::new, |time| time.to_rfc3339_opts(SecondsFormat::Secs, true))
}
