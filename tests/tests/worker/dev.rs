//! `koze dev --local`: wrangler and workerd, with Durable Objects backed by sandboxes on this machine. Except for the
//! conformance suite, a few lines of JavaScript replace the Rust Worker.

mod conformance;
mod contract;
mod given_up;
mod keys;
mod life;
mod preview;
pub(crate) mod run;
mod whole;
