//! Real containers for the tests: podman, in the place of the Docker engine that wrangler and workerd ask for.
//!
//! The engine is the tests' own: it keeps all it has below one directory, runs in process and mount namespaces of its
//! own, and is gone with all its containers when the last test lets go of it, or the process of the tests ends, however
//! it does. Nothing is fetched: images are made of this machine's programs (`root`, `official`).

mod engine;
mod official;
mod root;

pub use engine::{Engine, Image};
