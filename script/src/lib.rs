//! Runs the scripts of agents: `JavaScript` in `QuickJS`, without `eval`, within limits. A script can only send messages to its host.
//!
//! The host starts a script, and receives a message for each call and each line of its log:
//!
//! ```text
//! start → call | log | timer → answer → done
//! ```
//!
//! | module | job |
//! |---|---|
//! | [`protocol`] | the messages |
//! | [`limits`] | the limits of a script |
//! | [`frame`] | messages as bytes |
//! | `engine` | one run of a script |
//! | `shared` | the state that the functions of a script share with its engine |
//! | `native` | runs scripts one after another, with the clock of the system |
//! | `wasm` | runs one script as a module of WebAssembly, with the clock of its host |
//! | `c`, `print` | functions of C that the module needs |
//! | `schema` | the schemas of tools, and their arguments |
//! | `compile` | compiles source to bytecode, in a separate context |
//! | `globals` | the globals of a script |
//! | `web` | random numbers, UTF-8 and URLs, for the globals of `web.js` |
//! | `csv` | `parseCSV` |
//! | `json` | values of a script as JSON, which `encode.js` writes |
//! | `failure` | errors with their place in the script |
//! | `rejections` | rejected promises that nothing handles |
//! | `logs` | limits what a script logs |
//! | `memory` | limits the memory of an engine |
//!
//! The modules from `engine` on need the feature `engine`. An engine is not a security boundary: a host runs it in an unprivileged process, or in
//! a separate isolate.

#[cfg(all(feature = "engine", target_arch = "wasm32"))]
mod c;
#[cfg(feature = "engine")]
mod compile;
#[cfg(feature = "engine")]
mod csv;
#[cfg(feature = "engine")]
pub mod engine;
#[cfg(feature = "engine")]
mod failure;
pub mod frame;
#[cfg(feature = "engine")]
mod globals;
#[cfg(feature = "engine")]
mod json;
pub mod limits;
#[cfg(feature = "engine")]
mod logs;
#[cfg(feature = "engine")]
mod memory;
#[cfg(all(feature = "engine", not(target_arch = "wasm32")))]
pub mod native;
pub mod protocol;
#[cfg(feature = "engine")]
mod rejections;
#[cfg(feature = "engine")]
mod schema;
#[cfg(feature = "engine")]
mod shared;
#[cfg(all(feature = "engine", target_arch = "wasm32"))]
mod wasm;
#[cfg(feature = "engine")]
mod web;

#[cfg(feature = "engine")]
pub use self::engine::{Engine, Host, State};
pub use self::limits::Limits;
