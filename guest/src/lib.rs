//! The first process of a sandbox: it runs programs and opens files for the koze that started it.
//!
//! The two talk over a socket in [`message`]s. Both run on one machine here, so data does not go through the guest: the
//! host hands over the ends of pipes for a program, and the guest hands back files it has opened. The guest is one
//! thread and holds no secret; what runs beside it in the sandbox has the same user and must not get the better of it.

#[cfg(target_os = "linux")]
pub mod channel;
#[cfg(target_os = "linux")]
mod files;
pub mod message;
#[cfg(target_os = "linux")]
mod net;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod spawn;
#[cfg(target_os = "linux")]
mod stream;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
pub mod tree;

#[cfg(target_os = "linux")]
pub use serve::serve;
