//! Sandbox providers.

pub mod cloudflare;

pub use koze_core::provider::*;
