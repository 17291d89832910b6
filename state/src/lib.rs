//! What a machine keeps of the sandboxes of a state directory, whatever runs them: the stores of sessions, secrets, and the
//! journals. It works on every Unix.
//!
//! | module | job |
//! |---|---|
//! | `store` | values and blobs of a session |
//! | `secrets` | the secrets of scripts and of credentials |
//! | `journal` | writes the journal of tool calls |
//! | `calls` | reads it |
//! | `pictures` | the pictures in the results of these calls |
//! | `egress` | the journal of the hosts that sandboxes reached |
//! | `survey` | what people see of sandboxes |
//! | `streams` | the standard streams of programs that another process has |
//! | `archives` | the stream of a directory that a sandbox archives |
//! | `connections` | the open connections of a listener |
//! | `runtime` | the thread on which everything runs |
//! | `errors` | errors that several operations report |

#![cfg(unix)]

pub mod archives;
mod calls;
mod connections;
mod egress;
pub mod errors;
mod journal;
mod pictures;
pub mod runtime;
mod secrets;
mod store;
mod streams;
mod survey;

pub use calls::{CallsQuery, SessionCalls, count_calls, read_calls};
pub use connections::{Connections, Proof};
pub use egress::{EgressJournal, Reached, read_egress};
pub use journal::CallJournal;
pub use pictures::{Picture, read_picture};
pub use runtime::block_on;
pub use secrets::{SecretInfo, Secrets};
pub use store::{Database, SessionStore, Stores};
pub use streams::AttachedStreams;
pub use survey::{Measured, SandboxLimits, Surveyed};
