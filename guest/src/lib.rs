//! The first process of a sandbox: it runs programs and opens files for the koze that started it.
//!
//! On one machine the two talk over a socket in [`message`]s. Data does not go through the guest there: the host hands
//! over the ends of pipes for a program, and the guest hands back files it has opened. That guest is one thread and holds
//! no secret. In a container ([`container`]) host and guest are two machines, and talk over TCP; that guest has threads,
//! and a token. What runs beside a guest in the sandbox has the same user and must not get the better of it.

#[cfg(target_os = "linux")]
pub mod channel;
#[cfg(target_os = "linux")]
pub mod container;
#[cfg(target_os = "linux")]
mod files;
pub mod message;
#[cfg(target_os = "linux")]
mod net;
pub mod output;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod process;
pub mod recording;
pub mod roster;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod spawn;
#[cfg(target_os = "linux")]
mod stream;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
pub mod tree;

#[cfg(target_os = "linux")]
pub use serve::serve;
