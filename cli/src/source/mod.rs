//! The user's Rust sources, where a command reads or edits them: by splices, so that no other byte moves.

pub mod idents;
pub mod mentions;
pub mod module;
