//! An entry of `allowed_hosts` or `denied_hosts`.

use std::fmt;

use super::address;
use super::host::Host;
use koze_core::error::{Code, Error, Result};

/// The ports of an entry of `allowed_hosts` without a port: those of HTTP and HTTPS.
const USUAL: [u16; 2] = [80, 443];

/// An entry: hosts, and an optional port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    hosts: Hosts,
    port: Option<u16>,
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
    pub(super) fn parse(text: &str) -> Result<Self> {
        let hosts = |text: &str| {
            let below = text.strip_prefix("*.");
            match (Host::parse(below.unwrap_or(text)), below) {
                (Some(Host::Name(name)), Some(_)) => Some(Hosts::Below(format!(".{name}"))),
                (Some(host), None) => Some(Hosts::One(host)),
                _ => None,
            }
        };
        let (host, port) =
            match text.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']')) {
                Some((host, port)) => (host, Some(parse_port(port))),
                None => (text, None),
            };
        match (hosts(host), port) {
            (Some(hosts), None) => Ok(Rule { hosts, port: None, text: text.to_owned() }),
            (Some(hosts), Some(Some(port))) => Ok(Rule { hosts, port: Some(port), text: text.to_owned() }),
            _ => {
                let text = format!(
                    "`{}` is not a host that can be allowed or denied: write a name or an address, without scheme or \
                     path; `*.` may precede a name, and a port may follow: `example.com:8080`",
                    text.escape_debug()
                );
                Err(Error::new(Code::InvalidInput, text))
            }
        }
    }

    /// Returns whether it allows a port of a host.
    pub(super) fn allows(&self, host: &Host, port: u16) -> bool {
        self.names(host) && self.port.map_or(USUAL.contains(&port), |only| only == port)
    }

    /// Returns whether it denies a port of a host. An entry without a port denies all ports.
    pub(super) fn denies(&self, host: &Host, port: u16) -> bool {
        self.port.is_none_or(|only| only == port) && (self.names(host) || self.leads_to(host))
    }

    /// Returns whether it matches a host literally.
    pub(super) fn names(&self, host: &Host) -> bool {
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
