//! Words in commands that a person copies into a shell.

/// Returns a word in single quotes, as a POSIX shell reads them.
pub fn single_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
