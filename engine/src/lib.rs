//! Sandboxes in containers of Docker or podman: koze's sandboxes on machines without Linux namespaces, and with declared images.
//!
//! A sandbox is a container of the declared image, with only a loopback interface: what its profile allows of the internet, it
//! reaches through the proxy of [`koze_egress`] in this process, over the connection to the guest. koze's guest is its first process. It is copied into the
//! container before the first start, so any image will do, and speaks over the standard input and output of the container,
//! which this process attaches to: nothing listens on a port, and only who can use the engine reaches it. When this process
//! ends, its containers stop; their files stay until a sandbox is destroyed.
//!
//! | module | job |
//! |---|---|
//! | `provider` | the provider: opens, finds and lists sandboxes |
//! | `sandbox` | one sandbox and its operations |
//! | `guest` | the connection to its guest |
//! | `network` | the egress proxy of a sandbox |
//! | `preview` | the servers of programs, which browsers of this machine reach |
//! | `record` | what this machine knows of the sandboxes of a session |
//! | `container` | how a container is created |
//! | `api`, `address` | the requests to an engine, and where it listens |
//! | `shared`, `runtime` | what sandboxes share; the thread on which containers are served |

#![cfg(unix)]

mod address;
mod api;
mod container;
mod guest;
mod network;
mod preview;
mod provider;
mod record;
mod runtime;
mod sandbox;
mod shared;

pub use address::{EngineKind, VARIABLES};
pub use container::MAX_PROCESSES;
pub use provider::{Engine, RunningSandbox};
pub use record::{Record, Recorded, has_recorded, list_recorded};
pub use sandbox::{EngineProcess, EngineSandbox, Incoming, Outgoing};
