//! The Worker of a new project, tested over HTTP.

mod calls;
mod cancellation;
mod files;
mod host;
mod hostile;
mod keys;
mod log;
mod ports;
mod protocol;
mod sandboxes;
mod sessions;
mod snapshots;
mod store;
mod trees;

pub(crate) use host::{Host, TOKEN, rust_worker, told};
