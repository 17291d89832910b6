//! What runs behind the class of a sandbox.

use std::fmt;

/// What runs behind the class of a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backend {
    /// Cloudflare's Sandbox SDK, in images of its own.
    #[default]
    Sdk,
    /// koze's own guest, in any image.
    Native,
}

impl Backend {
    /// Both.
    pub const ALL: [Backend; 2] = [Backend::Sdk, Backend::Native];

    /// The word for it, as attributes and `koze.lock` have it.
    pub fn word(self) -> &'static str {
        match self {
            Backend::Sdk => "sdk",
            Backend::Native => "native",
        }
    }

    /// The one of a word.
    pub fn of(word: &str) -> Option<Backend> {
        Backend::ALL.into_iter().find(|backend| backend.word() == word)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
