//! `--since`.

use std::time::Duration;

use chrono::DateTime;
use koze_core::time::{millis, now};

/// Parses a time. Returns milliseconds since 1970.
///
/// # Errors
/// Returns a message about the argument.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    if let Some(ago) = parse_duration(text) {
        return Ok(now().saturating_sub(millis(ago)));
    }
    let time = DateTime::parse_from_rfc3339(text).ok();
    time.and_then(|time| u64::try_from(time.timestamp_millis()).ok()).ok_or_else(|| {
        format!(
            "--since: `{}` is not a time: write one such as 2026-11-29T07:00:00Z, or a duration such as 30s, 10m, 2h or 1d",
            text.escape_debug()
        )
    })
}

/// Parses a duration with a unit.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return None,
    };
    let number: u64 = text[..text.len() - 1].parse().ok()?;
    Some(Duration::from_secs(number.checked_mul(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_durations() {
        assert_eq!(parse("2023-11-14T22:13:20Z"), Ok(1_700_000_000_000));
        assert_eq!(parse("2023-11-14T23:13:20.5+01:00"), Ok(1_700_000_000_500));
        for (text, seconds) in [("0s", 0), ("10m", 600), ("2h", 7200), ("1d", 86_400)] {
            let ago = now() - parse(text).unwrap();
            assert!((seconds * 1000..seconds * 1000 + 5000).contains(&ago), "{text}: {ago}");
        }
        for text in [
            "",
            "m",
            "10",
            "1w",
            "-1m",
            "1.5h",
            "é",
            "99999999999999999999s",
            "2023-11-14",
            "1900-01-01T00:00:00Z",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
