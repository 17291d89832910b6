//! The host of a request.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host: an address, or a lowercase name without a trailing dot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// An address.
    Address(IpAddr),
    /// A name.
    Name(String),
}

impl Host {
    /// Parses the host of a URI. Returns `None` for invalid hosts and unusual notations of addresses: some programs
    /// read `0x7f.1` and `2130706433` as 127.0.0.1, others as names.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Host::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Host::Address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        let good = name.len() <= 253 && name.split('.').all(label) && !is_number(name.rsplit('.').next()?);
        good.then_some(Host::Name(name))
    }

    /// Returns the host as a URL has it: an IPv6 address in brackets.
    pub fn in_url(&self) -> String {
        match self {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            host => host.to_string(),
        }
    }
}

/// Returns a host of the journal with its port. A port of 0 stands for a lookup of the name, which has none.
pub fn describe_target(host: &str, port: u16) -> String {
    if port == 0 { host.to_owned() } else { format!("{host}:{port}") }
}

/// Returns whether a label is a number. No name may end in one, because it would be taken for an address.
fn is_number(label: &str) -> bool {
    label.bytes().all(|byte| byte.is_ascii_digit())
        || label.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Address(address) => address.fmt(f),
            Host::Name(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (text, shown) in [
            ("example.com", "example.com"),
            ("EXAMPLE.com.", "example.com"),
            ("localhost", "localhost"),
            ("a_b.c-d.e1", "a_b.c-d.e1"),
            ("1.example", "1.example"),
            ("1.2.3.4", "1.2.3.4"),
            ("[::1]", "::1"),
            ("[::FFFF:1.2.3.4]", "1.2.3.4"),
            ("1.2.3.0xg", "1.2.3.0xg"),
        ] {
            let host = Host::parse(text).unwrap();
            assert_eq!(host.to_string(), shown, "{text}");
            assert_eq!(Host::parse(&host.in_url()), Some(host), "{text}");
        }
        let long = format!("{}.com", "a".repeat(64));
        let longer = ["a".repeat(60).as_str(); 5].join(".");
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "a..",
            "0x7f.1",
            "127.1",
            "0177.0.0.1",
            "2130706433",
            "0x7f000001",
            "127.0.0.1.",
            "127.0.0.0x1",
            "0x",
            "1.2.3.4.5",
            "::1",
            "[::1",
            "[fe80::1%25eth0]",
            "[127.0.0.1]",
            "a b",
            "a%2eb",
            "bücher.example",
            "a/b",
            "*.example.com",
            &long,
            &longer,
        ] {
            assert_eq!(Host::parse(text), None, "{text}");
        }
    }
}
