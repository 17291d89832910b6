//! The `koze` command: keeps the wrangler configuration and the generated code of a Rust Worker in step with its
//! sandbox files.
//!
//! ```text
//! discover ▸ sdk ▸ plan (fate, images, wrangler, generate) ▸ write ▸ output
//! ```
//!
//! Data flows one way: a stage takes what the one before it made, adds what it found wrong to the [`finding::Findings`],
//! and stops where there is an error. Only [`mod@write`] changes a file.

pub mod args;
pub mod build;
pub mod commands;
pub mod dev;
pub mod discover;
pub mod doctor;
pub mod draft;
pub mod finding;
pub mod generate;
pub mod ignored;
pub mod images;
pub mod lock;
pub mod manifest;
#[cfg(target_os = "linux")]
mod mcp;
pub mod output;
pub mod paths;
pub mod plan;
pub mod recover;
pub mod rules;
pub mod sdk;
#[cfg(target_os = "linux")]
pub mod session;
pub mod source;
pub mod watch;
pub mod worker_crate;
pub mod wrangler;
pub mod write;
