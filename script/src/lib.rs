//! Runs the scripts of agents: `JavaScript` in `QuickJS`, without `eval`, within limits. Everything else is a message to the host.
//!
//! The host starts a script, and gets a message for each call and each line of its log:
//!
//! ```text
//! start → call | log | timer → answer → done
//! ```
//!
//! | module | job |
//! |---|---|
//! | [`protocol`] | the messages |
//! | [`limits`] | what a script may use |
//! | [`frame`] | messages as bytes |
//! | `engine` | one run of a script |
//! | `native` | runs scripts one after another, with the clock of the system |
//! | `wasm` | runs one script as a module of WebAssembly, with the clock of its host |
//! | `compile` | source to bytecode, in a context of its own |
//! | `globals` | what a script sees |
//! | `failure` | errors with their place in the script |
//! | `logs` | limits what a script logs |
//! | `memory` | limits the memory of an engine |
//!
//! The modules from `engine` on need the feature of this name. An engine is no security boundary: a host runs it in a process without privileges, or in an isolate of its own.

#[cfg(feature = "engine")]
mod compile;
#[cfg(feature = "engine")]
pub mod engine;
#[cfg(feature = "engine")]
mod failure;
pub mod frame;
#[cfg(feature = "engine")]
mod globals;
pub mod limits;
#[cfg(feature = "engine")]
mod logs;
#[cfg(feature = "engine")]
mod memory;
#[cfg(all(feature = "engine", not(target_arch = "wasm32")))]
pub mod native;
pub mod protocol;
#[cfg(all(feature = "engine", target_arch = "wasm32"))]
mod wasm;

#[cfg(feature = "engine")]
pub use self::engine::{Engine, Host, State};
pub use self::limits::Limits;
