//! The wrangler configuration: finding it, reading it, and what has to change in it.
//!
//! [`locate`] finds the file, which [`koze_edit`] reads and edits in place. What is to change is decided over plain data:
//! [`scope`] says where blocks stand, [`lifecycle`] which classes live, [`level`] what stands there, [`blocks`] what the
//! entries must be, and [`bindings`] what the Worker's `env` holds.

pub mod bindings;
pub mod blocks;
pub mod create;
pub mod legacy;
pub mod level;
pub mod lifecycle;
pub mod locate;
pub mod scope;
pub mod settings;
