//! The diagnostics of the command line: those of [`koze_model`], which it shares with the macro, and its own.
//!
//! Codes are unique over both tables and never reused.

mod table;

use std::io;

pub use table::Rule;

/// Returns what a person can do about an error of the operating system.
fn way_out(kind: io::ErrorKind) -> &'static str {
    use io::ErrorKind::{
        IsADirectory, NotADirectory, NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem,
        StorageFull,
    };
    match kind {
        NotFound => "create it, or correct the path",
        PermissionDenied => "allow your user to use it (`ls -l` shows its owner and mode)",
        IsADirectory => "a file must be there: move the directory elsewhere",
        NotADirectory => "a directory must be there: move the file elsewhere",
        StorageFull | QuotaExceeded => "free space on that disk",
        ReadOnlyFilesystem => "use a directory on a file system that can be written to",
        _ => "resolve the cause",
    }
}

/// Joins words as `` `a` or `b` ``.
fn join_with_or(words: &[String]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_over_both_tables() {
        let all = Rule::all();
        let twice: Vec<_> = all.windows(2).filter(|pair| pair[0].code == pair[1].code).collect();
        assert!(twice.is_empty(), "{twice:?}");
        assert!(all.len() > koze_model::Rule::all().len(), "both tables are here");
        assert!(all.iter().all(|rule| rule.code.len() == 4 && rule.code.starts_with('K')), "{all:?}");
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
