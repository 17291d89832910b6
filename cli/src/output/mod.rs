//! What a person or a program gets to see.

pub mod diff;
pub mod findings;
pub mod github;
pub mod human;
pub mod json;
