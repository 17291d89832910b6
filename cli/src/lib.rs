//! The `koze` command: keeps the wrangler configuration and the generated code of a Rust Worker in step with its
//! sandbox files.
//!
//! ```text
//! discover ▸ sdk ▸ plan (fate, images, wrangler, generate) ▸ write ▸ output
//! ```
//!
//! Data flows one way: each stage takes the result of the previous one, adds problems to the [`finding::Findings`], and
//! fails if there are errors. Only [`mod@write`] changes files.

pub mod args;
pub mod build;
#[cfg(unix)]
mod clients;
pub mod commands;
pub mod dev;
pub mod discover;
pub mod doctor;
pub mod draft;
pub mod finding;
pub mod generate;
mod home;
pub mod ignored;
#[cfg(namespaces)]
mod image_build;
pub mod images;
pub mod lock;
pub mod manifest;
#[cfg(unix)]
mod mcp;
pub mod output;
pub mod own;
pub mod paths;
pub mod plan;
pub mod platform;
mod prefix;
#[cfg(unix)]
mod provider;
pub mod recover;
pub mod rules;
pub mod scripts;
pub mod sdk;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
pub mod session;
pub mod source;
#[cfg(unix)]
mod trust;
pub mod watch;
pub mod wrangler;
pub mod write;
