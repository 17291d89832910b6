//! `koze dev --local`: wrangler and workerd, and behind the Durable Objects sandboxes of this machine. A few lines of
//! JavaScript stand where the Rust Worker would, but for the conformance suite.

mod conformance;
mod contract;
mod given_up;
mod keys;
mod life;
mod preview;
pub(crate) mod run;
mod whole;
