//! The diagnostics of sandbox files: code, message and help in one table.
//!
//! Codes are never reused. The message says what is wrong; the help says what would be right and what to do next. The
//! macro and the command line print the same text. The command line has another table, also defined with
//! [`rule_table!`](crate::rule_table), for the rules that only it checks.

mod define;
mod table;

pub use koze_protocol::words::nearest;
pub use table::Rule;

use crate::attrs::keys::Key;
use crate::kind::Kind;
use crate::names::InvalidFileName;

impl From<InvalidFileName> for Rule {
    fn from(invalid: InvalidFileName) -> Self {
        match invalid {
            InvalidFileName::Suffix { file } => {
                Rule::NotASandboxFile { kind: Kind::Sandbox, file, class: None }
            }
            InvalidFileName::Base { kind, file, suggestion } => Rule::BadFileName { kind, file, suggestion },
        }
    }
}

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing is written.
    Error,
    /// The build continues.
    Warning,
}

impl Level {
    /// Returns the word for it: `error` or `warning`.
    pub fn word(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
        }
    }
}

/// A rule in the form that `koze explain` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// The stable code: `K010`.
    pub code: &'static str,
    /// Error or warning.
    pub level: Level,
    /// The meaning, in one sentence.
    pub meaning: String,
    /// Why there is such a rule: what would go wrong without it.
    pub why: &'static str,
    /// An example that breaks it, of one or several lines.
    pub example: &'static str,
}

/// Joins words as `` `a`, `b` and `c` ``.
pub fn listed(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

/// Returns the example for a key.
pub(super) fn example(key: &str) -> String {
    Key::find(key).map_or_else(|| format!("{key} = \"value\""), |known| known.example.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique() {
        let codes: Vec<_> = Rule::all().into_iter().map(|rule| rule.code).collect();
        let mut unique = codes.clone();
        unique.dedup();
        assert_eq!(codes, unique);
    }

    #[test]
    fn every_rule_has_a_meaning_and_an_example() {
        for rule in Rule::all() {
            assert!(rule.meaning.ends_with('.') && rule.meaning.len() > 10, "{rule:?}");
            assert!(rule.why.ends_with('.') && rule.why.len() > 20, "{rule:?}");
            assert!(!rule.example.is_empty(), "{rule:?}");
        }
    }
}
