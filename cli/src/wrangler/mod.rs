//! The wrangler configuration: finding it, reading it, and editing it in place.
//!
//! [`locate`] finds the file, [`document`] reads and edits it. What is to change is decided over plain data:
//! [`scope`] says where blocks stand, [`lifecycle`] which classes live, [`level`] what stands there, [`blocks`] what the
//! entries must be.

pub mod blocks;
pub mod create;
pub mod document;
pub mod legacy;
pub mod level;
pub mod lifecycle;
pub mod locate;
pub mod scope;
pub mod settings;

mod jsonc;
mod toml;
