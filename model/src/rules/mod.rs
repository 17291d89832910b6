//! The diagnostics of sandbox files: code, message and help in one table.
//!
//! Codes are never reused. The message says what is wrong; the help says what would be right and what to do next. The
//! macro and the command line print the same text. The command line has another table, also defined with
//! [`rule_table!`](crate::rule_table), for the rules that only it checks.

mod define;
mod table;

pub use table::Rule;

use crate::attrs::keys::KEYS;
use crate::names::InvalidFileName;

impl From<InvalidFileName> for Rule {
    fn from(invalid: InvalidFileName) -> Self {
        match invalid {
            InvalidFileName::Suffix { file } => Rule::NotASandboxFile { file, class: None },
            InvalidFileName::Base { file, suggestion } => Rule::BadFileName { file, suggestion },
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
    /// An example that breaks it, of one or several lines.
    pub example: &'static str,
}

/// Returns the known word nearest to `word`, if it is near enough to be a typing error.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&word.to_lowercase(), known), *known))
        .filter(|(distance, known)| *distance <= known.len().max(word.len()) / 2 && *distance <= 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
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
    KEYS.iter()
        .find(|known| known.name == key)
        .map_or_else(|| format!("{key} = \"value\""), |known| known.example.to_owned())
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
            assert!(!rule.example.is_empty(), "{rule:?}");
        }
    }

    #[test]
    fn only_near_words_are_suggested() {
        let known = ["image", "variant", "max_instances"];
        assert_eq!(nearest("imgae", &known), Some("image"));
        assert_eq!(nearest("maxInstances", &known), Some("max_instances"));
        assert_eq!(nearest("zzzzzzzz", &known), None);
    }
}
