//! Identifiers of sandboxes. Tenant and session come from the host, never from a model. A model chooses only the name of a
//! sandbox within its session.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};

/// The longest tenant or session, in bytes.
const MAX_LENGTH: usize = 256;

/// An agent's session, which owns sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionId {
    tenant: String,
    session: String,
}

impl SessionId {
    /// Creates the ID of a tenant's session. Both parts must have 1 to 256 bytes and no control characters.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] otherwise.
    pub fn new(tenant: impl Into<String>, session: impl Into<String>) -> Result<Self> {
        let (tenant, session) = (tenant.into(), session.into());
        for (what, text) in [("tenant", &tenant), ("session", &session)] {
            if text.is_empty() || text.len() > MAX_LENGTH || text.contains(char::is_control) {
                let message =
                    format!("a {what} ID must have 1 to {MAX_LENGTH} bytes and no control characters");
                return Err(Error::new(Code::InvalidInput, message));
            }
        }
        Ok(SessionId { tenant, session })
    }

    /// Returns the tenant.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// Returns the session's name within the tenant.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns a text that identifies the session unambiguously.
    pub fn key(&self) -> String {
        // The lengths make it unambiguous: `a:b` and `c` differ from `a` and `b:c`.
        format!("{}:{},{}:{},", self.tenant.len(), self.tenant, self.session.len(), self.session)
    }

    /// Parses a [key](SessionId::key).
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if it is not a valid key.
    pub fn from_key(key: &str) -> Result<Self> {
        let no_key = || Error::new(Code::InvalidInput, "the key of a session is not valid");
        let (tenant, rest) = split_netstring(key).ok_or_else(no_key)?;
        match split_netstring(rest) {
            Some((session, "")) => SessionId::new(tenant, session),
            _ => Err(no_key()),
        }
    }
}

/// Splits off a length-prefixed text.
fn split_netstring(text: &str) -> Option<(&str, &str)> {
    let (length, rest) = text.split_once(':')?;
    let length = length.parse().ok()?;
    Some((rest.get(..length)?, rest.get(length..)?.strip_prefix(',')?))
}

/// The name of a sandbox in its session: `[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct SandboxName(String);

/// The regular expression that a name must match.
pub const NAME_PATTERN: &str = "^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$";

impl SandboxName {
    /// Validates a name.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the name is not valid.
    pub fn new(name: &str) -> Result<Self> {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let good = (1..=20).contains(&name.len())
            && name.chars().all(inner)
            && !name.starts_with('-')
            && !name.ends_with('-');
        if good {
            return Ok(SandboxName(name.to_owned()));
        }
        let message = "a sandbox's name must have 1 to 20 lowercase letters, digits and inner hyphens";
        Err(Error::new(Code::InvalidInput, message))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SandboxName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The ID of a sandbox: its session and its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SandboxId {
    /// The session.
    pub session: SessionId,
    /// The name within the session.
    pub name: SandboxName,
}

impl SandboxId {
    /// Returns a text that identifies the sandbox unambiguously.
    pub fn key(&self) -> String {
        format!("{}{}", self.session.key(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unambiguous() {
        let key = |tenant: &str, session: &str| SessionId::new(tenant, session).unwrap().key();
        assert_ne!(key("a:b", "c"), key("a", "b:c"));
        assert_ne!(key("a,1:b", "c"), key("a", "b,1:c"));
        assert_eq!(key("a", "b"), "1:a,1:b,");
        for (tenant, session) in [("a:b", "c"), ("a", "1:b,"), ("ä", "日本")] {
            let id = SessionId::new(tenant, session).unwrap();
            assert_eq!(SessionId::from_key(&id.key()).unwrap(), id);
        }
        for bad in ["", "1:a,", "1:a,1:b", "1:a,1:b,c", "2:a,1:b,", "1:ä,1:b,", "-1:a,1:b,"] {
            assert_eq!(SessionId::from_key(bad).unwrap_err().code, Code::InvalidInput, "{bad}");
        }
    }

    #[test]
    fn names_of_sandboxes() {
        let long = "a".repeat(20);
        for good in ["a", "0", "default", "a-b", "a--b", &long] {
            assert_eq!(SandboxName::new(good).unwrap().as_str(), good);
        }
        let longer = "a".repeat(21);
        for bad in ["", "-a", "a-", "A", "a_b", "a/b", "..", "a\n", "ä", "a b", &longer] {
            assert_eq!(SandboxName::new(bad).unwrap_err().code, Code::InvalidInput, "{bad:?}");
        }
    }

    #[test]
    fn sessions_are_named_by_the_host() {
        for (tenant, session) in [("", "a"), ("a", ""), ("a\n", "b"), ("a", "\0")] {
            assert_eq!(SessionId::new(tenant, session).unwrap_err().code, Code::InvalidInput);
        }
    }
}
