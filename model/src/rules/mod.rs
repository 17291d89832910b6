//! The diagnostics of sandbox files: code, message and help in one table.
//!
//! A code is never given to another rule. A message says what was wrong, the help what would be right and what
//! to do next. The macro and the command line print both as they stand here. Rules that only the command line can find
//! broken are in a table of its own, which [`rule_table!`](crate::rule_table) makes, too.

mod define;
mod table;

pub use table::Rule;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing is written.
    Error,
    /// The build goes on.
    Warning,
}

impl Level {
    /// The word for it: `error` or `warning`.
    pub fn word(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
        }
    }
}

/// A rule as `koze explain` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// The stable code: `K010`.
    pub code: &'static str,
    /// Error or warning.
    pub level: Level,
    /// What it means, in one sentence.
    pub meaning: String,
    /// Something that breaks it, of one line or several.
    pub example: &'static str,
}

/// The known word nearest to `word`, if one is near enough to be meant.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&word.to_lowercase(), known), *known))
        .filter(|(distance, known)| *distance <= known.len().max(word.len()) / 2 && *distance <= 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// `` `a`, `b` and `c` ``.
pub fn listed(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

/// How a key is written rightly.
pub(super) fn example(key: &str) -> String {
    crate::attrs::KEYS
        .iter()
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
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["image", "variant", "max_instances"];
        assert_eq!(nearest("imgae", &known), Some("image"));
        assert_eq!(nearest("maxInstances", &known), Some("max_instances"));
        assert_eq!(nearest("zzzzzzzz", &known), None);
    }
}
