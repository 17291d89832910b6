//! The languages of code.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python, with the interpreter `python3`.
    Python,
    /// JavaScript, with the interpreter `node`.
    Javascript,
}

impl Language {
    /// All languages.
    pub const ALL: [Language; 2] = [Language::Python, Language::Javascript];

    /// Returns its name in attributes and inputs.
    pub fn name(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::Javascript => "javascript",
        }
    }

    /// Returns other names of it, which inputs may have.
    fn aliases(self) -> &'static [&'static str] {
        match self {
            Language::Python => &["py", "python3"],
            Language::Javascript => &["js", "node"],
        }
    }

    /// Returns the language with a name.
    pub fn find(name: &str) -> Option<Self> {
        let is_named = |language: &Language| language.name() == name || language.aliases().contains(&name);
        Language::ALL.into_iter().find(is_named)
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
