//! The name of the Durable Object of a session's sandbox: short enough for a hostname.

use data_encoding::BASE32_NOPAD;
use sha2::{Digest, Sha256};

use koze_core::id::SandboxId;

/// So many bytes of a digest are more than any two sandboxes ever share.
const BYTES: usize = 17;

/// The length of a label, and of the token in the URL of a preview: 130 bits.
pub(crate) const LENGTH: usize = 26;

/// 26 characters of lower-case base32 that follow from the whole of the id.
pub(super) fn of(id: &SandboxId) -> String {
    base32(&Sha256::digest(id.key()))
}

/// The first 130 bits of a digest in lower-case base32.
pub(crate) fn base32(digest: &[u8]) -> String {
    let mut text = BASE32_NOPAD.encode(&digest[..BYTES]).to_ascii_lowercase();
    text.truncate(LENGTH);
    text
}

/// Whether a text can be a label or a token.
pub(crate) fn is_one(text: &str) -> bool {
    text.len() == LENGTH && is_base32(text)
}

/// Whether all of a text is lower-case base32.
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
        // Where the objects of sandboxes that are there are: it never changes.
        assert_eq!(label("default", "s", "default"), "exla6ckszovfwloivo6xa75k6u");
        assert!(is_one(&label("a", "b", "c")));
        assert_ne!(label("a:b", "c", "d"), label("a", "b:c", "d"));
        assert_ne!(label("a", "b", "c"), label("a", "b", "d"));
    }

    #[test]
    fn what_is_no_label() {
        for text in ["", "a", &"a".repeat(27), &"A".repeat(26), &"1".repeat(26), &"é".repeat(13)] {
            assert!(!is_one(text), "{text}");
        }
    }
}
