//! Finds and reads the wrangler configuration, and computes its changes.
//!
//! [`locate`] finds the file, and [`koze_edit`] reads and edits it in place. The changes are computed over plain data:
//! [`scope`] locates the blocks, [`level`] indexes their entries, [`lifecycle`] determines which classes exist,
//! [`blocks`] computes the required entries, and [`bindings`] reads the Worker's `env`.

pub mod bindings;
pub mod blocks;
pub mod create;
pub mod legacy;
pub mod level;
pub mod lifecycle;
pub mod locate;
pub mod scope;
pub mod settings;
pub mod typescript;
