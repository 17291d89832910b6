//! The egress policy of a sandbox as data, and what it makes of a request. All of it is pure: each host of sandboxes calls it.
//!
//! | module | job |
//! |---|---|
//! | `host`, `address` | the host of a request; the addresses that are on the internet |
//! | `rule`, `path` | an entry of `allowed_hosts` or `denied_hosts`; path patterns |
//! | `policy` | the policy: which host, and which request, is allowed |
//! | `credential` | the credentials of a profile |
//! | `decide` | what happens to a request: it is allowed, denied, or gets values in place of placeholders |
//! | `sigv4` | the signature of AWS |
//! | `limits` | how much a sandbox may exchange with each host |
//! | `mask` | removes values from responses |

mod address;
mod credential;
mod decide;
mod host;
mod limits;
mod mask;
mod path;
mod policy;
mod rule;
mod sigv4;

pub use self::address::is_open;
pub use self::credential::{Credential, Key, Placement, environment, placeholder};
pub use self::decide::{Decision, MIN_VALUE, RequestHead};
pub use self::host::{Host, describe_target};
pub use self::limits::{Limits, Usage};
#[cfg(feature = "script")]
pub(crate) use self::mask::to_hex;
pub use self::mask::{Mask, StreamMask};
pub use self::policy::{DeclaredPolicy, Policy, Refused, Subject};
pub use self::rule::Rule;

/// What scripts are called in place of a sandbox. No sandbox can have this name.
pub const SCRIPTS: &str = "(scripts)";
