//! Isolated Linux sandboxes on Cloudflare for Rust Workers.
//!
//! A file `src/server/python.sandbox.rs` declares a sandbox:
//!
//! ```text
//! use koze::prelude::*;
//!
//! #[sandbox(variant = "python", max_instances = 10)]
//! pub struct PythonSandbox;
//! ```
//!
//! `koze build` (package `koze-cli`) updates the wrangler configuration and `src/generated`. A Worker uses its sandboxes, and
//! every other binding of the configuration, through the generated `Env`:
//!
//! ```text
//! let env = generated::Env::from(env);
//! let sandbox = env.python_sandbox().get("user-42")?;
//! let cache = env.cache()?; // the KV namespace `CACHE`
//! ```

#[doc(hidden)]
pub mod binding;
mod class;
mod detach;
pub mod error;
pub mod handle;
pub mod id;
mod namespace;
mod path;
pub mod pool;
pub mod provider;
mod run;
pub mod sandbox;
pub mod serve;
mod time;
pub mod tool;
mod transfer;

pub use class::SandboxClass;
pub use error::{Code, Error, Result};
pub use handle::Handle;
pub use id::{SandboxId, SandboxName, SessionId};
pub use koze_macros::sandbox;
pub use namespace::{Namespace, Stub};
pub use pool::{Images, Pool};
pub use provider::Provider;
pub use run::{Outcome, Run};
pub use sandbox::Sandbox;
pub use transfer::transfer;

/// The imports of a sandbox file.
pub mod prelude {
    pub use crate::{Namespace, SandboxClass, Stub, sandbox};
}

/// For generated code and macros only. Not covered by semantic versioning.
#[doc(hidden)]
pub mod __private {
    pub use crate::{SandboxClass, binding};
    pub use serde;
    pub use serde_json;
    pub use worker;
}
