//! The words that every part of koze shares: the guest in a sandbox, the hosts of sandboxes, the Durable Object of a
//! sandbox and the command line.
//!
//! The forms on the wire are part of these types. A guest and a class of different versions of koze can meet, so a name,
//! the order of variants and the order of fields never change.

mod change;
mod code;
mod credential;
#[cfg(feature = "text")]
pub mod edit;
mod family;
mod files;
mod limit;
#[cfg(feature = "text")]
pub mod lines;
#[cfg(feature = "operation")]
pub mod operation;
pub mod output;
mod request_pattern;
#[cfg(feature = "search")]
pub mod search;
mod size;
#[cfg(feature = "tar")]
pub mod tar;
#[cfg(feature = "words")]
pub mod words;

/// The image that Cloudflare keeps on its hosts for Durable Object-managed Containers: Debian with Node, and without
/// Python, Git and curl.
pub const PLATFORM_IMAGE: &str = "cloudflare/debian-trixie";

pub use change::Change;
pub use code::Code;
pub use credential::{is_aws_name, is_credential_header, is_unreserved_word};
pub use family::Family;
pub use files::{Entry, Kind, Misfit, Place, Stat};
pub use limit::Limit;
pub use request_pattern::RequestPattern;
pub use size::split_unit;

#[cfg(feature = "serde")]
mod stat;
