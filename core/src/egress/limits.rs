//! Limits of the requests and bytes that a sandbox exchanges with each host.

use std::collections::HashMap;
use std::time::Duration;

use koze_protocol::Limit;

use super::host::Host;
use super::policy::{Policy, Refused};
use crate::error::{Code, Error, Result};

/// For how many hosts a sandbox's usage is counted. An entry with `*.` may match any number of hosts.
const MAX_HOSTS: usize = 10_000;

/// Limits as they are declared. Each is for one sandbox and one host.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// The number of requests in a period: `100/m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<String>,
    /// The number of bytes that are sent and received: `50MB`, or in a period: `1GB/d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
}

impl Limits {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.requests.is_none() && self.bytes.is_none()
    }
}

/// Parsed limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ParsedLimits {
    requests: Option<(Limit, String)>,
    bytes: Option<(Limit, String)>,
}

impl ParsedLimits {
    pub(super) fn parse(limits: &Limits) -> Result<Self> {
        Ok(ParsedLimits {
            requests: parse_limit("requests", limits.requests.as_deref(), Limit::of_requests)?,
            bytes: parse_limit("bytes", limits.bytes.as_deref(), Limit::of_bytes)?,
        })
    }
}

fn parse_limit(
    key: &str,
    text: Option<&str>,
    parse: fn(&str) -> Option<Limit>,
) -> Result<Option<(Limit, String)>> {
    let Some(text) = text else { return Ok(None) };
    let Some(limit) = parse(text) else {
        let text = format!("`{}` is not a valid limit of {key}", text.escape_debug());
        return Err(Error::new(Code::InvalidInput, text));
    };
    Ok(Some((limit, text.to_owned())))
}

/// What a sandbox has used of its limits.
#[derive(Debug, Default)]
pub struct Usage(HashMap<Host, Counts>);

/// What it has used for one host.
#[derive(Debug, Default)]
struct Counts {
    requests: Count,
    bytes: Count,
}

/// An amount since the beginning of a period.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    since: Duration,
    amount: u64,
}

impl Count {
    /// Begins a new period if the last one is over.
    fn renew(&mut self, limit: Limit, now: Duration) {
        let is_over = |period| now >= self.since + Duration::from_secs(period);
        if self.amount == 0 || limit.period.is_some_and(is_over) {
            *self = Count { since: now, amount: 0 };
        }
    }
}

impl Policy {
    /// Returns whether requests or bytes are counted.
    pub fn has_limits(&self) -> bool {
        self.limits != ParsedLimits::default()
    }

    /// Returns whether the bytes of connections are counted.
    pub fn limits_bytes(&self) -> bool {
        self.limits.bytes.is_some()
    }

    /// Counts a request to a host. `now` is the time since any fixed moment.
    ///
    /// # Errors
    /// Returns the limit that it would exceed.
    pub fn count_request(
        &self,
        usage: &mut Usage,
        host: &Host,
        now: Duration,
    ) -> std::result::Result<(), Refused> {
        let Some((limit, text)) = &self.limits.requests else { return Ok(()) };
        let count = &mut usage.counts(host)?.requests;
        count.renew(*limit, now);
        if count.amount >= limit.amount {
            return Err(exceeded("requests", *limit, text, host, count.since, now));
        }
        count.amount += 1;
        Ok(())
    }

    /// Counts bytes that were sent to a host or received from it. With 0 bytes, it checks whether any are left.
    ///
    /// # Errors
    /// Returns the limit that they exceed.
    pub fn count_bytes(
        &self,
        usage: &mut Usage,
        host: &Host,
        bytes: u64,
        now: Duration,
    ) -> std::result::Result<(), Refused> {
        let Some((limit, text)) = &self.limits.bytes else { return Ok(()) };
        let count = &mut usage.counts(host)?.bytes;
        count.renew(*limit, now);
        count.amount = count.amount.saturating_add(bytes);
        if count.amount > limit.amount || (bytes == 0 && count.amount == limit.amount) {
            return Err(exceeded("bytes", *limit, text, host, count.since, now));
        }
        Ok(())
    }
}

impl Usage {
    fn counts(&mut self, host: &Host) -> std::result::Result<&mut Counts, Refused> {
        if self.0.len() >= MAX_HOSTS && !self.0.contains_key(host) {
            let text = format!(
                "this sandbox has reached {MAX_HOSTS} hosts, which is as many as `limits` counts for"
            );
            return Err(Refused { rule: "limits: too many hosts".to_owned(), text });
        }
        Ok(self.0.entry(host.clone()).or_default())
    }
}

fn exceeded(
    what: &str,
    limit: Limit,
    declared: &str,
    host: &Host,
    since: Duration,
    now: Duration,
) -> Refused {
    let wait = match limit.period {
        Some(period) => {
            let left = (since + Duration::from_secs(period)).saturating_sub(now);
            format!("try again in {} seconds", left.as_secs() + 1)
        }
        None => "this does not change until the sandbox is started again".to_owned(),
    };
    let text = format!("this sandbox has reached its limit of {what} for {host}, `{declared}`: {wait}");
    Refused { rule: format!("limits: {what} {declared}"), text }
}

#[cfg(test)]
mod tests {
    use super::super::DeclaredPolicy;
    use super::*;

    fn policy(requests: Option<&str>, bytes: Option<&str>) -> Result<Policy> {
        let limits = Limits { requests: requests.map(str::to_owned), bytes: bytes.map(str::to_owned) };
        Policy::of_declared(&DeclaredPolicy {
            internet: true,
            allowed_hosts: Vec::new(),
            denied_hosts: Vec::new(),
            credentials: Vec::new(),
            limits,
        })
    }

    fn after(seconds: u64) -> Duration {
        Duration::from_secs(1_000_000 + seconds)
    }

    #[test]
    fn requests_are_counted_by_host_and_period() {
        let policy = policy(Some("2/m"), None).unwrap();
        let (mut usage, a, b) =
            (Usage::default(), Host::parse("a.example").unwrap(), Host::parse("b.example").unwrap());
        assert!(policy.count_request(&mut usage, &a, after(0)).is_ok());
        assert!(policy.count_request(&mut usage, &a, after(30)).is_ok());
        let refused = policy.count_request(&mut usage, &a, after(50)).unwrap_err();
        assert_eq!(refused.rule, "limits: requests 2/m");
        assert!(refused.text.ends_with("`2/m`: try again in 11 seconds"), "{}", refused.text);
        assert!(policy.count_request(&mut usage, &b, after(50)).is_ok());
        assert!(policy.count_request(&mut usage, &a, after(60)).is_ok());
        assert!(
            policy.count_bytes(&mut usage, &a, u64::MAX, after(60)).is_ok(),
            "there is no limit of bytes"
        );
    }

    #[test]
    fn bytes_are_counted_by_host() {
        let policy = policy(None, Some("1KB")).unwrap();
        let (mut usage, a, b) =
            (Usage::default(), Host::parse("a.example").unwrap(), Host::parse("b.example").unwrap());
        let mut count = |host: &Host, bytes| {
            policy.count_bytes(&mut usage, host, bytes, after(0)).map_err(|refused| refused.text)
        };
        assert_eq!(count(&a, 999), Ok(()));
        assert_eq!(count(&a, 0), Ok(()));
        assert_eq!(count(&a, 1), Ok(()));
        assert!(count(&a, 0).unwrap_err().contains("started again"));
        assert!(count(&a, 1).is_err());
        assert_eq!(count(&b, 1000), Ok(()));
        assert!(count(&b, u64::MAX).is_err());
    }

    #[test]
    fn usage_is_bounded_and_limits_are_checked() {
        let limited = policy(Some("1/d"), None).unwrap();
        let mut usage = Usage::default();
        for at in 0..MAX_HOSTS {
            let host = Host::parse(&format!("a{at}.example")).unwrap();
            limited.count_request(&mut usage, &host, Duration::ZERO).unwrap();
        }
        let refused = limited.count_request(&mut usage, &Host::parse("b.example").unwrap(), Duration::ZERO);
        assert!(refused.unwrap_err().text.contains("10000 hosts"));
        for (requests, bytes) in [(Some("1"), None), (None, Some("1/m"))] {
            assert_eq!(policy(requests, bytes).unwrap_err().code, Code::InvalidInput);
        }
    }
}
