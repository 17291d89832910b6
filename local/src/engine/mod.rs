//! The thread on which everything runs.

pub(crate) mod ready;

pub(crate) use koze_state::runtime::{engine, run_blocking, run_to_completion, run_while_waited};
