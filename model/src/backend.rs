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
}

impl Backend {
    /// All backends.
    pub const ALL: [Backend; 2] = [Backend::Sdk, Backend::Native];

    /// Returns the word for it in attributes and in `koze.lock`.
    pub fn word(self) -> &'static str {
        match self {
            Backend::Sdk => "sdk",
            Backend::Native => "native",
        }
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
