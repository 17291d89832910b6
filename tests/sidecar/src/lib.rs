//! The certificate authority that the tests and their sidecar share.

mod authority;

pub use authority::Authority;
