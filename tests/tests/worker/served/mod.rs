//! What the Worker of a new project answers, asked over HTTP.

mod calls;
mod given_up;
mod host;
mod hostile;
mod keys;
mod ports;
mod protocol;
mod sessions;
mod trees;

pub(crate) use host::{rust_worker, told};
