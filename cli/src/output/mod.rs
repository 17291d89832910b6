//! Renders results for people and for programs.

pub mod diff;
pub mod findings;
pub mod github;
pub mod human;
pub mod json;
pub mod shell;
