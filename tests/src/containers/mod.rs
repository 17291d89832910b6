//! Real containers for the tests: podman, in place of the Docker engine that wrangler and workerd expect.
//!
//! The engine belongs to the tests: it keeps all its data below one directory, runs in its own process and mount
//! namespaces, and ends with all its containers when the last test releases it or the test process ends for any reason.
//! Nothing is pulled: images are built from this machine's programs (`root`, `official`).

mod engine;
mod front;
mod official;
mod root;

pub use engine::{Engine, Image};
