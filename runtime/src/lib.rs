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
//!
//! A file `src/server/wordpress.container.rs` declares a service in a container, with an image of its own and without
//! tools:
//!
//! ```text
//! #[container(image = "wordpress:6.8-apache", port = 80)]
//! pub struct WordpressContainer;
//! ```
//!
//! ```text
//! env.wordpress_container().get("user-42")?.fetch(request).await
//! ```

#[doc(hidden)]
pub mod binding;
mod class;
pub mod cloudflare;
mod namespace;
mod request;
pub mod serve;
mod service;

pub use class::SandboxClass;
pub use koze_core::{
    Code, Error, Handle, Outcome, Profiles, Provider, Result, Run, Sandbox, SandboxId, SandboxName, Session,
    SessionId, Store, Workspace, Workspaces, transfer,
};
pub use koze_core::{
    error, handle, id, journal, profiles, provider, sandbox, script, session, store, tool, workspace,
};
pub use koze_macros::{container, sandbox};
pub use namespace::{Namespace, Stub};
pub use service::{ContainerClass, Service, Services};

/// The imports of a file that declares a sandbox or a container.
pub mod prelude {
    pub use crate::{ContainerClass, Namespace, SandboxClass, Service, Services, Stub, container, sandbox};
}

/// For generated code and macros only. Not covered by semantic versioning.
#[doc(hidden)]
pub mod __private {
    pub use crate::request::SandboxRequests;
    pub use crate::{ContainerClass, SandboxClass, binding};
    pub use serde;
    pub use serde_json;
    pub use worker;
}
