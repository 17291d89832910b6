//! A client for the HTTP routes that a Worker and `koze mcp --http` serve.
//!
//! ```no_run
//! use koze_client::Client;
//!
//! # fn main() -> koze_client::Result<()> {
//! let client = Client::new("https://agents.example.workers.dev", "the Worker's KOZE_TOKEN")?;
//! let session = client.session("default");
//! let result = session.call("shell", r#"{"command": "uname -a"}"#, None)?;
//! println!("{}", result.content);
//! # Ok(())
//! # }
//! ```
//!
//! The types of requests and responses are those of the server, `koze_core::http`. The client blocks: call it from a thread of
//! its own in asynchronous programs. Only requests that change nothing are retried, and events go on where they were cut off.
//!
//! | module | job |
//! |---|---|
//! | `request` | requests, retries and errors |
//! | `session` | the tools, the sandboxes and the journal of a session |
//! | `processes` | the processes of a sandbox |
//! | `files` | the files of a sandbox |
//! | `download` | files that are read even if the connection is cut off |
//! | `snapshots` | the snapshots of a session |
//! | `events` | server-sent events |
//! | `attempts` | connects again after a connection was cut off |
//! | `source` | streams of them, which are requested again after they were cut off |
//! | `forward` | requests that a program passes on |
//! | `watch` | changes to the files of a sandbox |
//! | `mcp` | messages of the Model Context Protocol |

mod attempts;
mod download;
mod events;
mod files;
mod forward;
mod mcp;
mod processes;
mod request;
mod session;
mod snapshots;
mod source;
mod watch;

pub use koze_core::http;
pub use koze_core::{Code, Error, Result, ToolResult};

pub use self::download::Download;
pub use self::files::FileReader;
pub use self::forward::Forwarded;
pub use self::mcp::{McpClient, McpMessages};
pub use self::processes::ProcessEvents;
pub use self::request::Client;
pub use self::session::Session;
pub use self::watch::FileEvents;
