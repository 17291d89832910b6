//! An entry of `allowed_hosts` or `denied_hosts`.

use std::fmt;

use koze_protocol::RequestPattern;

use super::address;
use super::host::Host;
use super::path::PathPattern;
use crate::error::{Code, Error, Result};

/// The ports of an entry of `allowed_hosts` without a port: those of HTTP and HTTPS.
const USUAL: [u16; 2] = [80, 443];

/// An entry: hosts, and an optional method, port and path pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    method: Option<String>,
    hosts: Hosts,
    port: Option<u16>,
    path: Option<PathPattern>,
    /// The original text.
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    /// This host.
    One(Host),
    /// All names with this suffix, including the leading dot: `.example.com`.
    Below(String),
}

impl Rule {
    /// Parses an entry.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] with the valid form.
    pub fn parse(text: &str) -> Result<Self> {
        let hosts = |text: &str| {
            let below = text.strip_prefix("*.");
            match (Host::parse(below.unwrap_or(text)), below) {
                (Some(Host::Name(name)), Some(_)) => Some(Hosts::Below(format!(".{name}"))),
                (Some(host), None) => Some(Hosts::One(host)),
                _ => None,
            }
        };
        let split = |host: &str| match host.rsplit_once(':') {
            Some((name, port)) if !name.contains(':') || name.ends_with(']') => {
                Some((hosts(name)?, Some(parse_port(port)?)))
            }
            _ => Some((hosts(host)?, None)),
        };
        let parsed = RequestPattern::split(text).and_then(|pattern| Some((pattern, split(pattern.host)?)));
        let Some((RequestPattern { method, path, .. }, (hosts, port))) = parsed else {
            let text = format!(
                "`{}` is not a host that can be allowed or denied: write a name or an address, without scheme; `*.` may \
                 precede a name, and a port may follow: `example.com:8080`. A method may precede it, and a path pattern follow: \
                 `GET example.com/v1/**`",
                text.escape_debug()
            );
            return Err(Error::new(Code::InvalidInput, text));
        };
        let (method, path) = (method.map(str::to_owned), path.map(PathPattern::new));
        Ok(Rule { method, hosts, port, path, text: text.to_owned() })
    }

    /// Returns its port, if it has one.
    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns whether it matches only some of the requests to its hosts.
    pub fn is_partial(&self) -> bool {
        self.method.is_some() || self.path.is_some()
    }

    /// Returns whether it matches a request to its hosts. `path` is the normalized path, or `None` if servers may read it in several ways,
    /// which only entries without a path pattern match.
    pub(super) fn matches_request(&self, method: &str, path: Option<&str>) -> bool {
        let Some(pattern) = &self.path else { return self.matches_method(method) };
        self.matches_method(method) && path.is_some_and(|path| pattern.matches(path))
    }

    /// The same for entries that deny: a path that servers may read in several ways matches every pattern.
    pub(super) fn may_match_request(&self, method: &str, path: Option<&str>) -> bool {
        self.matches_method(method) && (path.is_none() || self.matches_request(method, path))
    }

    fn matches_method(&self, method: &str) -> bool {
        self.method.as_ref().is_none_or(|only| only == method)
    }

    /// Returns whether it allows a port of a host.
    pub fn allows(&self, host: &Host, port: u16) -> bool {
        self.names(host) && self.port.map_or(USUAL.contains(&port), |only| only == port)
    }

    /// Returns whether it denies a port of a host. An entry without a port denies all ports.
    pub(super) fn denies(&self, host: &Host, port: u16) -> bool {
        self.port.is_none_or(|only| only == port) && (self.names(host) || self.leads_to(host))
    }

    /// Returns whether it denies every request to every port of a host.
    pub(super) fn denies_all(&self, host: &Host) -> bool {
        self.port.is_none() && !self.is_partial() && self.names(host)
    }

    /// Returns whether it matches a host literally.
    pub fn names(&self, host: &Host) -> bool {
        match (&self.hosts, host) {
            (Hosts::One(this), host) => this == host,
            (Hosts::Below(end), Host::Name(name)) => name.ends_with(end) && name.len() > end.len(),
            (Hosts::Below(_), Host::Address(_)) => false,
        }
    }

    /// Returns whether it matches an address that the host leads to.
    fn leads_to(&self, host: &Host) -> bool {
        let (Hosts::One(Host::Address(this)), Host::Address(address)) = (&self.hosts, host) else {
            return false;
        };
        let these = address::reachable_addresses(*this);
        address::reachable_addresses(*address).iter().any(|form| these.contains(form))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Parses a decimal port.
fn parse_port(text: &str) -> Option<u16> {
    let decimal = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    decimal.then(|| text.parse().ok())?
}
