//! The backend of a sandbox.

use std::fmt;

/// The backend of a sandbox: what runs behind its class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backend {
    /// Cloudflare's Sandbox SDK, in its own images.
    #[default]
    Sdk,
    /// koze's own guest, in any image.
    Native,
    /// koze's own guest, in containers that a Durable Object owns: wrangler calls them "Durable Object-managed
    /// Containers". Image and size are chosen at each start.
    Managed,
}

impl Backend {
    /// All backends.
    pub const ALL: [Backend; 3] = [Backend::Sdk, Backend::Native, Backend::Managed];

    /// Returns the word for it in attributes and in `koze.lock`.
    pub fn word(self) -> &'static str {
        match self {
            Backend::Sdk => "sdk",
            Backend::Native => "native",
            Backend::Managed => "managed",
        }
    }

    /// Returns whether koze's guest is in the image, and not the SDK's program.
    pub fn has_own_guest(self) -> bool {
        self != Backend::Sdk
    }

    /// Returns the backend of a word.
    pub fn of(word: &str) -> Option<Backend> {
        Backend::ALL.into_iter().find(|backend| backend.word() == word)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
