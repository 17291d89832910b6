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
pub mod cloudflare;
mod namespace;
pub mod serve;

pub use class::SandboxClass;
pub use koze_core::{
    Code, Error, Handle, Outcome, Profiles, Provider, Result, Run, Sandbox, SandboxId, SandboxName, Session,
    SessionId, Store, Workspace, Workspaces, transfer,
};
pub use koze_core::{
    error, handle, id, profiles, provider, sandbox, script, session, store, tool, workspace,
};
pub use koze_macros::sandbox;
pub use namespace::{Namespace, Stub};

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
