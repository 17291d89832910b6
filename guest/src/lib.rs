//! The first process of a sandbox: it runs programs and opens files on behalf of the host.
//!
//! On one machine the two exchange [`message`]s over a socket. Data does not pass through the guest there: the host
//! passes pipe ends for programs, and the guest returns opened files as descriptors. That guest is single-threaded and
//! holds no secret. In a container ([`container`]) host and guest are on different machines and use TCP; that guest has
//! threads and a token. Other programs in the sandbox run as the same user, and must not be able to take over the
//! guest.

pub mod archive;
pub mod calls;
#[cfg(target_os = "linux")]
pub mod channel;
#[cfg(target_os = "linux")]
pub mod client;
#[cfg(target_os = "linux")]
pub mod container;
#[cfg(target_os = "linux")]
mod files;
pub mod frame;
pub mod kills;
pub mod message;
#[cfg(target_os = "linux")]
mod net;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod process;
pub mod recording;
pub mod request;
pub mod roster;
#[cfg(target_os = "linux")]
mod search;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod spawn;
#[cfg(target_os = "linux")]
pub mod stream;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
pub mod tree;

#[cfg(target_os = "linux")]
pub use files::describe;
pub use koze_protocol::output;
#[cfg(target_os = "linux")]
pub use serve::serve;
