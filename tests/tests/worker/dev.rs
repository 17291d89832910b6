//! `koze dev --local`: wrangler and workerd, with Durable Objects backed by sandboxes on this machine. Except for the
//! conformance suite, a few lines of JavaScript replace the Rust Worker.

mod cancellation;
mod conformance;
mod contract;
mod deerflow;
mod keys;
mod life;
mod preview;
pub(crate) mod run;
mod whole;
