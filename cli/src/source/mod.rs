//! Reads and edits the user's Rust sources, by splicing the text so that all other bytes are kept.

pub mod attribute;
pub mod idents;
pub mod mentions;
pub mod module;

/// Splits a text into its byte order mark, if any, and the rest.
pub fn split_mark(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 })
}
