//! The network of scripts: the hosts that they may reach, and one exchange of their `fetch`.

use std::time::Duration;

use koze_script::protocol::Method;

#[cfg(feature = "script")]
use crate::error::{Code, Error, Result};

/// The hosts that the scripts of a project may reach, with the same meaning as for a sandbox. By default, there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Egress {
    /// Whether they can reach the internet.
    pub internet: bool,
    /// The hosts that they may reach. Empty means any host, if `internet` is set.
    pub allowed_hosts: Vec<String>,
    /// The hosts that they may not reach.
    pub denied_hosts: Vec<String>,
}

impl Egress {
    /// Returns whether no host can be reached.
    pub fn is_off(&self) -> bool {
        !self.internet && self.allowed_hosts.is_empty()
    }

    /// Fails if no host can be reached.
    #[cfg(feature = "script")]
    pub(crate) fn check_on(&self) -> Result<()> {
        if !self.is_off() {
            return Ok(());
        }
        let message = "scripts of this project may not reach the internet. To allow it, ask the user to set `internet = true`, or hosts \
                       in `allowed_hosts`, in `[package.metadata.koze.script]` of `Cargo.toml`";
        Err(Error::new(Code::PermissionDenied, message))
    }
}

/// One request to a server. It has been validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The method.
    pub method: Method,
    /// Whether it is HTTPS.
    pub tls: bool,
    /// The host, as in a URL: a lowercase name or an address, in brackets if it is IPv6.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path and the query.
    pub target: String,
    /// The headers, with lowercase names and without `host` and those that describe the connection.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<String>,
    /// The timeout until the body of the response is complete.
    pub time: Duration,
    /// The maximum size of the response's body in bytes.
    pub longest: usize,
    /// The names of the credentials whose values are in it, for the journal.
    pub credentials: Vec<String>,
}

/// The response of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// The status.
    pub status: u16,
    /// The headers, with lowercase names. A name can occur more than once.
    pub headers: Vec<(String, String)>,
    /// The body as it was sent: nothing is decompressed. The body of a redirect is left out.
    pub body: Vec<u8>,
}

impl Exchanged {
    /// Returns the first header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the target of a redirect, if the response is one.
    pub fn location(&self) -> Option<&str> {
        matches!(self.status, 301 | 302 | 303 | 307 | 308).then(|| self.header("location"))?
    }
}
