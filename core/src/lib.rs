//! What every host of koze's sandboxes shares: the operations of a sandbox, sessions, and the tools that agents call.
//!
//! A Worker uses the crate `koze`, which re-exports this one and adds Cloudflare's side. Programs that run sandboxes on a
//! Linux machine use it with `koze-local`.
//!
//! | module | job |
//! |---|---|
//! | [`sandbox`] | the operations of a sandbox |
//! | [`progress`] | what a tool call reports while it runs |
//! | [`provider`] | opens sandboxes; the provider in memory |
//! | [`contract`] | the methods of a sandbox's Durable Object, as data |
//! | [`egress`] | the egress policy of a sandbox, and its credentials |
//! | [`session`], [`handle`] | a session with its sandboxes, and a handle to one of them |
//! | [`profiles`] | the sandbox profiles of a project |
//! | [`script`] | scripts of agents: what runs them and answers their calls |
//! | [`store`] | the store of a session: values and blobs |
//! | [`workspace`] | workspaces: a directory of a sandbox, with declared capabilities |
//! | [`journal`] | the journal of tool calls |
//! | [`id`], [`error`] | names and errors |
//! | [`tool`] | the tools, their definitions and results |

#[doc(hidden)]
pub mod archive;
pub mod contract;
mod detach;
pub mod egress;
pub mod error;
#[doc(hidden)]
pub mod files;
mod glob;
pub mod handle;
#[doc(hidden)]
pub mod http;
pub mod id;
pub mod journal;
mod json;
pub mod maybe_send;
mod observed;
#[doc(hidden)]
pub mod path;
pub mod profiles;
pub mod progress;
pub mod provider;
mod run;
pub mod sandbox;
pub mod script;
#[doc(hidden)]
pub mod search;
pub mod session;
#[doc(hidden)]
pub mod shell;
pub mod store;
#[doc(hidden)]
pub mod time;
#[doc(hidden)]
pub mod together;
pub mod tool;
mod trace;
#[doc(hidden)]
pub mod transfer;
mod turns;
pub mod workspace;

pub use error::{Code, Error, Result};
pub use handle::Handle;
pub use id::{SandboxId, SandboxName, SessionId};
pub use profiles::Profiles;
pub use progress::Progress;
pub use provider::Provider;
pub use run::{Outcome, Run};
pub use sandbox::Sandbox;
pub use session::Session;
pub use store::Store;
pub use tool::{Family, ToolResult};
pub use transfer::transfer;
pub use workspace::{Workspace, Workspaces};
