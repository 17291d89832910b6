//! SHA-256 digests.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::errors::{Error, Result};

const PREFIX: &str = "sha256:";
/// The digits of a layer's directory. Overlay mounts limit the length of all names together to 4 KiB.
const SHORT: usize = 16;

/// A digest, as `sha256:` and 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Digest(String);

impl Digest {
    /// Parses a digest. Other algorithms are refused, because the store can only verify this one.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let digits = text.strip_prefix(PREFIX).unwrap_or_default();
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() != 64 || !digits.bytes().all(is_digit) {
            let shown: String = text.chars().take(100).collect();
            return Err(Error::refused(format!(
                "`{}` is not a digest that koze can verify: it must be `sha256:` and 64 hexadecimal digits",
                shown.escape_debug()
            )));
        }
        Ok(Digest(text.to_owned()))
    }

    /// Returns the digest of bytes.
    pub(crate) fn compute(bytes: &[u8]) -> Self {
        Self::finish(Sha256::new_with_prefix(bytes))
    }

    /// Returns the digest of everything that was hashed.
    pub(crate) fn finish(hasher: Sha256) -> Self {
        Digest(format!("{PREFIX}{}", HEXLOWER.encode(&hasher.finalize())))
    }

    /// Returns all digits.
    pub(crate) fn digits(&self) -> &str {
        &self.0[PREFIX.len()..]
    }

    /// Returns the first digits, which name the directory of a layer.
    pub(crate) fn short(&self) -> &str {
        &self.digits()[..SHORT]
    }

    /// Returns the whole text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}
