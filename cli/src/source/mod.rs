//! The user's Rust sources, where a command reads or edits them: by splices, so that no other byte moves.

pub mod attribute;
pub mod idents;
pub mod mentions;
pub mod module;

/// The byte order mark of a text, where it has one, and what stands behind it.
pub fn split_mark(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 })
}
