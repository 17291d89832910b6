//! The preview URLs of ports: `<port>-<label>-<token>.<host>`.
//!
//! The token is a signature and a nonce. The signature covers the class, the sandbox, the port and the nonce. Its key
//! is derived from a secret of the Worker, so URLs cannot be forged, and a forged URL is rejected without waking an
//! object. The object creates a random nonce each time a port is opened, and deletes it when the port is closed. So a
//! URL does not work for a later opening, even if a new sandbox has the name of a destroyed one.
//!
//! A label of a hostname has at most 63 bytes, which leaves 26 characters for both. The signature has 80 bits, the
//! minimum that RFC 2104 recommends. The nonce only has to be unique, because it is signed.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::label;
use koze_core::error::{Code, Error, Result};

/// The ports that can be exposed. A class rejects those that it reserves for itself.
const PORTS: std::ops::RangeInclusive<u16> = 1024..=65535;
/// The length of a signature, in characters of 5 bits each; a nonce follows it.
const SIGNATURE: usize = 16;
/// The length of a nonce.
const NONCE: usize = label::LENGTH - SIGNATURE;
/// The purpose of the key, which separates it from other keys of the same secret.
const PURPOSE: &[u8] = b"koze preview";

/// The host of previews, and the key that signs their URLs.
#[derive(Clone)]
pub struct Previews {
    key: Key,
    scheme: String,
    host: String,
}

/// The key that signs URLs: the secret that it is derived from. Most requests sign nothing, so none is derived early.
#[derive(Clone)]
pub struct Key(String);

/// The parsed hostname of a preview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a> {
    /// The port.
    pub port: u16,
    /// The label of the sandbox.
    pub label: &'a str,
    /// The nonce, which only the object of the sandbox can verify.
    pub nonce: &'a str,
    signature: &'a str,
}

/// A port that gets a URL once its sandbox has opened it.
pub(super) struct Preview<'a> {
    previews: &'a Previews,
    binding: &'a str,
    label: String,
    port: u16,
}

impl Key {
    /// Creates the key that is derived from a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Key(secret.into())
    }

    fn signature(&self, binding: &str, label: &str, port: u16, nonce: &str) -> String {
        // The length prefix separates the binding from the rest. All other parts have a fixed length.
        let (length, port) = ((binding.len() as u64).to_be_bytes(), port.to_be_bytes());
        let signed = [&length, binding.as_bytes(), label.as_bytes(), &port, nonce.as_bytes()];
        let mut text = label::base32(&self.sign(&signed));
        text.truncate(SIGNATURE);
        text
    }

    fn sign(&self, parts: &[&[u8]]) -> [u8; 32] {
        sign(&sign(self.0.as_bytes(), &[PURPOSE]), parts)
    }

    /// Verifies in constant time that an address was issued for a sandbox of the class with this binding. Only the
    /// object knows whether that opening of the port is current.
    pub fn is_of(&self, address: &Address, binding: &str) -> bool {
        let signature = self.signature(binding, address.label, address.port, address.nonce);
        signature.as_bytes().ct_eq(address.signature.as_bytes()).into()
    }
}

impl Previews {
    /// Creates previews on subdomains of a host, which may include a port.
    pub fn new(key: Key, scheme: impl Into<String>, host: impl Into<String>) -> Self {
        Previews { key, scheme: scheme.into(), host: host.into() }
    }

    /// Returns a preview for a port that is not open yet.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if the host cannot have subdomains, [`Code::InvalidInput`] if the port cannot be exposed.
    pub(super) fn of<'a>(&'a self, binding: &'a str, label: String, port: u16) -> Result<Preview<'a>> {
        if !PORTS.contains(&port) {
            let message = format!("port {port} cannot be exposed: use a port from 1024 to 65535");
            return Err(Error::new(Code::InvalidInput, message));
        }
        let name = self.host.rsplit_once(':').map_or(self.host.as_str(), |(name, _)| name);
        if name.to_ascii_lowercase().ends_with(".workers.dev") {
            let message = "subdomains of workers.dev do not reach this Worker: add a custom domain with a \
                wildcard route `*.example.com/*`, and set the variable KOZE_PREVIEW_HOST to it";
            return Err(Error::new(Code::Unsupported, message));
        }
        if name.is_empty() || name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok() {
            let message = format!(
                "the address `{}` cannot have subdomains: call the Worker by a hostname, such as localhost, or \
                 set the variable KOZE_PREVIEW_HOST",
                self.host
            );
            return Err(Error::new(Code::Unsupported, message));
        }
        Ok(Preview { previews: self, binding, label, port })
    }
}

impl Preview<'_> {
    /// Returns the URL for the opening with this nonce, or `None` if the nonce is malformed.
    pub(super) fn url(&self, nonce: &str) -> Option<String> {
        let Preview { previews: Previews { key, scheme, host }, binding, label, port } = self;
        if nonce.len() != NONCE || !label::is_base32(nonce) {
            return None;
        }
        let signature = key.signature(binding, label, *port, nonce);
        Some(format!("{scheme}://{port}-{label}-{signature}{nonce}.{host}/"))
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
    /// Parses a lowercase hostname. Returns `None` if it is not a preview's.
    pub fn parse(host: &'a str) -> Option<Self> {
        let (first, _) = host.split_once('.')?;
        let mut parts = first.splitn(3, '-');
        let (port, label, token) = (parts.next()?, parts.next()?, parts.next()?);
        let decimal = !port.starts_with('0') && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = decimal.then(|| port.parse().ok())??;
        let good = PORTS.contains(&port) && label::is_one(label) && label::is_one(token);
        // The token is ASCII.
        good.then(|| token.split_at(SIGNATURE)).map(|(signature, nonce)| Address {
            port,
            label,
            nonce,
            signature,
        })
    }
}

/// Returns the error for a Worker whose host is unknown.
pub(super) fn unknown_host() -> Error {
    let message = "the Worker's host is unknown outside of a request: set the variable KOZE_PREVIEW_HOST";
    Error::new(Code::Unsupported, message)
}

fn sign(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC accepts keys of any length.
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

    const NONCE: &str = "abcdefg234";

    fn url(key: &Key, host: &str, port: u16) -> Result<String> {
        let previews = Previews::new(key.clone(), "https", host);
        let preview = previews.of("SHELL_SANDBOX", LABEL.to_owned(), port)?;
        Ok(preview.url(NONCE).unwrap())
    }

    #[test]
    fn there_and_back() {
        let key = Key::new("a secret of the tests");
        for port in [1024, 8080, 65535] {
            let url = url(&key, "example.com:8787", port).unwrap();
            let host = url.strip_prefix("https://").unwrap().strip_suffix(":8787/").unwrap();
            assert!(host.split('.').next().unwrap().len() <= 63, "{host}");
            let address = Address::parse(host).unwrap();
            assert_eq!((address.port, address.label, address.nonce), (port, LABEL, NONCE));
            assert!(key.is_of(&address, "SHELL_SANDBOX"));
            assert!(!key.is_of(&address, "PYTHON_SANDBOX"));
            assert!(!Key::new("another secret").is_of(&address, "SHELL_SANDBOX"));
            assert!(!key.is_of(&Address { port: 9090, ..address }, "SHELL_SANDBOX"));
            assert!(!key.is_of(&Address { label: "zbcdefghijklmnopqrstuvwxyz", ..address }, "SHELL_SANDBOX"));
            assert!(
                !key.is_of(&Address { nonce: "abcdefg235", ..address }, "SHELL_SANDBOX"),
                "of another opening"
            );
        }
    }

    /// Changing any character invalidates a token.
    #[test]
    fn a_changed_token_is_rejected() {
        let key = Key::new("a secret of the tests");
        let url = url(&key, "example.com", 8080).unwrap();
        let host = url.strip_prefix("https://").unwrap().strip_suffix('/').unwrap();
        let token = "8080-".len() + LABEL.len() + "-".len();
        for at in token..token + label::LENGTH {
            let mut wrong = host.to_owned();
            let other = if &host[at..=at] == "a" { "b" } else { "a" };
            wrong.replace_range(at..=at, other);
            assert!(!key.is_of(&Address::parse(&wrong).unwrap(), "SHELL_SANDBOX"), "{wrong}");
        }
    }

    /// Earlier versions issued only a signature, over the same data without a nonce.
    #[test]
    fn a_url_without_a_nonce_is_rejected() {
        let key = Key::new("a secret of the tests");
        let length = ("SHELL_SANDBOX".len() as u64).to_be_bytes();
        let signed = [&length, b"SHELL_SANDBOX".as_slice(), LABEL.as_bytes(), &8080_u16.to_be_bytes()];
        let host = format!("8080-{LABEL}-{}.example.com", label::base32(&key.sign(&signed)));
        assert!(!key.is_of(&Address::parse(&host).unwrap(), "SHELL_SANDBOX"));
    }

    #[test]
    fn invalid_nonces() {
        let previews = Previews::new(Key::new("a secret of the tests"), "https", "example.com");
        let preview = previews.of("SHELL_SANDBOX", LABEL.to_owned(), 8080).unwrap();
        for nonce in ["", "abcdefg23", "abcdefg2345", "ABCDEFG234", "abcdefg231", "abcdefg23é", "a.evil.exa"]
        {
            assert_eq!(preview.url(nonce), None, "{nonce}");
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

    /// A port is rejected by its class, not here.
    #[test]
    fn a_port_that_some_classes_reserve() {
        let key = Key::new("a secret of the tests");
        assert!(url(&key, "example.com", 3000).unwrap().starts_with("https://3000-"));
        assert!(Address::parse(&format!("3000-{LABEL}-{LABEL}.example.com")).is_some());
    }

    #[test]
    fn invalid_preview_hosts() {
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
