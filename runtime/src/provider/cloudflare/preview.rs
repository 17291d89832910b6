//! The URLs at which the ports of sandboxes answer: `<port>-<label>-<token>.<host>`.
//!
//! The token is a signature over the class, the sandbox and the port under a key that follows from a secret of the
//! Worker: who has no URL can make none, and nothing has to be remembered.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::label;
use crate::error::{Code, Error, Result};

/// The ports that may be exposed. Of these, a class refuses what runs in its own containers, each time that it is asked.
const PORTS: std::ops::RangeInclusive<u16> = 1024..=65535;
/// What the key is for, so that it is no other key.
const PURPOSE: &[u8] = b"koze preview";

/// Where previews are served, and what signs their URLs.
#[derive(Clone)]
pub struct Previews {
    key: Key,
    scheme: String,
    host: String,
}

/// What signs URLs.
#[derive(Clone)]
pub struct Key([u8; 32]);

/// A preview, as a hostname has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a> {
    /// The port.
    pub port: u16,
    /// The label of the sandbox.
    pub label: &'a str,
    token: &'a str,
}

impl Key {
    /// The key that follows from a secret.
    pub fn new(secret: &str) -> Self {
        Key(sign(secret.as_bytes(), &[PURPOSE]))
    }

    fn token(&self, binding: &str, label: &str, port: u16) -> String {
        // With its length in front, no binding runs into what follows it.
        let length = (binding.len() as u64).to_be_bytes();
        label::base32(&sign(&self.0, &[&length, binding.as_bytes(), label.as_bytes(), &port.to_be_bytes()]))
    }

    /// Whether an address is one that was given for a sandbox of the class bound so. How long this takes says nothing of
    /// how much of the token was right.
    pub fn is_of(&self, address: &Address, binding: &str) -> bool {
        let token = self.token(binding, address.label, address.port);
        token.as_bytes().ct_eq(address.token.as_bytes()).into()
    }
}

impl Previews {
    /// Previews below a host, which may end in a port, signed with a key.
    pub fn new(key: Key, scheme: impl Into<String>, host: impl Into<String>) -> Self {
        Previews { key, scheme: scheme.into(), host: host.into() }
    }

    /// The URL of a port of a sandbox.
    ///
    /// # Errors
    /// [`Code::Unsupported`] where nothing can be served below the host, [`Code::InvalidInput`] for a port that is not to
    /// be exposed.
    pub(super) fn url(&self, binding: &str, label: &str, port: u16) -> Result<String> {
        if !PORTS.contains(&port) {
            let message = format!("port {port} cannot be exposed: take one of 1024 to 65535");
            return Err(Error::new(Code::InvalidInput, message));
        }
        let name = self.host.rsplit_once(':').map_or(self.host.as_str(), |(name, _)| name);
        if name.to_ascii_lowercase().ends_with(".workers.dev") {
            let message = "no hostname below workers.dev reaches this Worker: give it a custom domain with a wildcard \
                           route `*.example.com/*`, and say so in the variable KOZE_PREVIEW_HOST";
            return Err(Error::new(Code::Unsupported, message));
        }
        if name.is_empty() || name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok() {
            let message = format!(
                "no hostname is below the address `{}`: call the Worker by a name, such as localhost, or say in the \
                 variable KOZE_PREVIEW_HOST which it has",
                self.host
            );
            return Err(Error::new(Code::Unsupported, message));
        }
        let token = self.key.token(binding, label, port);
        Ok(format!("{}://{port}-{label}-{token}.{}/", self.scheme, self.host))
    }
}

impl std::fmt::Debug for Previews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Previews").field("host", &self.host).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl<'a> Address<'a> {
    /// Reads a hostname, in lower case as URLs have it; none where it is no preview's.
    pub fn parse(host: &'a str) -> Option<Self> {
        let (first, _) = host.split_once('.')?;
        let mut parts = first.splitn(3, '-');
        let (port, label, token) = (parts.next()?, parts.next()?, parts.next()?);
        let decimal = !port.starts_with('0') && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = decimal.then(|| port.parse().ok())??;
        let good = PORTS.contains(&port) && label::is_one(label) && label::is_one(token);
        good.then_some(Address { port, label, token })
    }
}

/// The error where nobody knows which host a Worker has.
pub(super) fn unknown_host() -> Error {
    let message = "outside of a request nobody knows which host this Worker has: say it in the variable KOZE_PREVIEW_HOST";
    Error::new(Code::Unsupported, message)
}

fn sign(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // A key may be of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: &str = "abcdefghijklmnopqrstuvwxyz";

    fn url(key: &Key, host: &str, port: u16) -> Result<String> {
        Previews::new(key.clone(), "https", host).url("SHELL_SANDBOX", LABEL, port)
    }

    #[test]
    fn there_and_back() {
        let key = Key::new("a secret of the tests");
        for port in [1024, 8080, 65535] {
            let url = url(&key, "example.com:8787", port).unwrap();
            let host = url.strip_prefix("https://").unwrap().strip_suffix(":8787/").unwrap();
            assert!(host.split('.').next().unwrap().len() <= 63, "{host}");
            let address = Address::parse(host).unwrap();
            assert_eq!((address.port, address.label), (port, LABEL));
            assert!(key.is_of(&address, "SHELL_SANDBOX"));
            assert!(!key.is_of(&address, "PYTHON_SANDBOX"));
            assert!(!Key::new("another secret").is_of(&address, "SHELL_SANDBOX"));
            assert!(!key.is_of(&Address { port: 9090, ..address }, "SHELL_SANDBOX"));
            assert!(!key.is_of(&Address { label: "zbcdefghijklmnopqrstuvwxyz", ..address }, "SHELL_SANDBOX"));
        }
    }

    #[test]
    fn hosts_and_ports_without_previews() {
        let key = Key::new("a secret of the tests");
        for host in ["a.b.workers.dev", "A.WORKERS.DEV:443", "127.0.0.1:8787", "[::1]:8787", ""] {
            assert_eq!(url(&key, host, 8080).unwrap_err().code, Code::Unsupported, "{host}");
        }
        for port in [0, 80, 1023] {
            assert_eq!(url(&key, "example.com", port).unwrap_err().code, Code::InvalidInput, "{port}");
        }
    }

    /// Whether a class refuses it, the class says.
    #[test]
    fn a_port_that_some_classes_need() {
        let key = Key::new("a secret of the tests");
        assert!(url(&key, "example.com", 3000).unwrap().starts_with("https://3000-"));
        assert!(Address::parse(&format!("3000-{LABEL}-{LABEL}.example.com")).is_some());
    }

    #[test]
    fn what_is_no_preview() {
        let good = format!("8080-{LABEL}-{LABEL}.example.com");
        assert!(Address::parse(&good).is_some());
        for host in [
            "example.com".to_owned(),
            format!("8080-{LABEL}-{LABEL}"),
            format!("08080-{LABEL}-{LABEL}.example.com"),
            format!("+8080-{LABEL}-{LABEL}.example.com"),
            format!("80-{LABEL}-{LABEL}.example.com"),
            format!("65536-{LABEL}-{LABEL}.example.com"),
            format!("8080-{LABEL}-{LABEL}-.example.com"),
            format!("8080-{}-{LABEL}.example.com", &LABEL[1..]),
            format!("x.{good}"),
        ] {
            assert_eq!(Address::parse(&host), None, "{host}");
        }
    }
}
