//! The name of a sandbox's Durable Object, short enough for a hostname.

use base32::Alphabet;
use sha2::{Digest, Sha256};

use koze_core::id::SandboxId;

/// The used bytes of a digest, enough to make collisions infeasible.
const BYTES: usize = 17;

/// The length of a label, and of the token in the URL of a preview: 130 bits.
pub(crate) const LENGTH: usize = 26;

/// Returns 26 characters of lowercase base32, derived from the whole ID.
pub(super) fn of(id: &SandboxId) -> String {
    base32(&Sha256::digest(id.key()))
}

/// Returns the first 130 bits of a digest in lowercase base32.
pub(crate) fn base32(digest: &[u8]) -> String {
    let mut text = base32::encode(Alphabet::Rfc4648Lower { padding: false }, &digest[..BYTES]);
    text.truncate(LENGTH);
    text
}

/// Returns whether a text has the form of a label or token.
pub(crate) fn is_one(text: &str) -> bool {
    text.len() == LENGTH && is_base32(text)
}

/// Returns whether a text is lowercase base32.
pub(super) fn is_base32(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use koze_core::id::{SandboxName, SessionId};

    #[test]
    fn a_label_follows_from_the_id() {
        let label = |tenant: &str, session: &str, name: &str| {
            let session = SessionId::new(tenant, session).unwrap();
            of(&SandboxId { session, name: SandboxName::new(name).unwrap() })
        };
        // This must never change: it is the address of existing objects.
        assert_eq!(label("default", "s", "default"), "exla6ckszovfwloivo6xa75k6u");
        assert!(is_one(&label("a", "b", "c")));
        assert_ne!(label("a:b", "c", "d"), label("a", "b:c", "d"));
        assert_ne!(label("a", "b", "c"), label("a", "b", "d"));
    }

    #[test]
    fn invalid_labels() {
        for text in ["", "a", &"a".repeat(27), &"A".repeat(26), &"1".repeat(26), &"é".repeat(13)] {
            assert!(!is_one(text), "{text}");
        }
    }
}
