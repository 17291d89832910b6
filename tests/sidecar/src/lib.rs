//! What the sidecar of the tests has in common with the tests: certificates that only they trust.

mod authority;

pub use authority::Authority;
