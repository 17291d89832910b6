//! Generates batches of edits.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use crate::edits::Seed;
use crate::generate::{key, members, value};

/// Generates pushed elements.
pub(crate) fn element() -> impl Strategy<Value = Value> {
    members(value(), 0..3)
}

pub(crate) fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    vec((any::<usize>(), any::<u8>(), vec(key(), 1..3), value(), element()), 0..7)
}
