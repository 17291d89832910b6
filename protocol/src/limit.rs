//! Limits of what a sandbox sends to a host and gets from it.

use crate::size::split_unit;

/// A limit: an amount, within a period if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The number of requests, or of bytes.
    pub amount: u64,
    /// The period in seconds.
    pub period: Option<u64>,
}

impl Limit {
    /// Parses a number of requests in a period: `100/m`. Periods are `s`, `m`, `h` and `d`.
    pub fn of_requests(text: &str) -> Option<Self> {
        let (amount, period) = text.split_once('/')?;
        Some(Limit { amount: parse_amount(amount)?, period: Some(parse_period(period)?) })
    }

    /// Parses a number of bytes, which may be for a period: `50MB`, `1GiB/d`.
    pub fn of_bytes(text: &str) -> Option<Self> {
        let (amount, period) =
            text.split_once('/').map_or((text, None), |(amount, period)| (amount, Some(period)));
        let (number, unit) = split_unit(amount)?;
        let period = match period {
            Some(period) => Some(parse_period(period)?),
            None => None,
        };
        Some(Limit { amount: parse_amount(number)?.checked_mul(unit)?, period })
    }
}

fn parse_amount(text: &str) -> Option<u64> {
    let is_number = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn parse_period(text: &str) -> Option<u64> {
    match text {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(60 * 60),
        "d" => Some(24 * 60 * 60),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parsed() {
        let limit = |amount, period| Some(Limit { amount, period });
        assert_eq!(Limit::of_requests("100/m"), limit(100, Some(60)));
        assert_eq!(Limit::of_bytes("50MB"), limit(50_000_000, None));
        assert_eq!(Limit::of_bytes("1GiB/d"), limit(1 << 30, Some(86_400)));
        assert_eq!(Limit::of_bytes("7B/s"), limit(7, Some(1)));
        for text in ["", "100", "0/m", "+1/m", "1/", "1/week", "1 /m", "1/m/m", "99999999999999999999/m"] {
            assert_eq!(Limit::of_requests(text), None, "{text}");
        }
        for text in ["", "50", "MB", "0MB", "1.5MB", "1 MB", "1mb", "1MB/", "99999999999GiB"] {
            assert_eq!(Limit::of_bytes(text), None, "{text}");
        }
    }
}
