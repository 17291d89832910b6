//! Decodes the bytes of a fuzzer: a text up to the first zero byte, then edits of five bytes each.

use koze_edit::Format;
use serde_json::{Value, json};

use crate::edits::Seed;
use crate::property::check_any;

/// The maximum number of edits. More would only be slower.
const MAX_EDITS: usize = 8;

/// Checks all properties for an input.
pub(crate) fn check(format: Format, input: &[u8]) {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let Ok(text) = std::str::from_utf8(&input[..end]) else { return };
    let edits = input.get(end + 1..).unwrap_or_default();
    let seeds: Vec<Seed> = edits.as_chunks().0.iter().take(MAX_EDITS).copied().map(seed).collect();
    check_any(format, text, &seeds);
}

fn seed([low, high, kind, key, value]: [u8; 5]) -> Seed {
    let keys = ["containers", "durable_objects", "bindings", "a", "b c", "ü", "", "\"\\\n"];
    let values = values();
    let pick = |byte: u8| usize::from(byte);
    let mut new = vec![keys[pick(key) % keys.len()].to_owned()];
    if key >= 128 {
        new.push(keys[pick(key >> 3) % keys.len()].to_owned());
    }
    let element = values[pick(value >> 4) % TABLES].clone();
    (
        usize::from(u16::from_le_bytes([low, high])),
        kind,
        new,
        values[pick(value) % values.len()].clone(),
        element,
    )
}

/// The number of tables among the values; they come first.
const TABLES: usize = 4;

/// Returns the values that edits write. They contain no nulls, which TOML lacks.
fn values() -> Vec<Value> {
    vec![
        json!({}),
        json!({ "name": "x", "class_name": "X" }),
        json!({ "a": { "b c": [{ "": 1 }], "ü": {} } }),
        json!({ "tag": "v1", "new_sqlite_classes": ["A"], "n": [] }),
        json!([]),
        json!([1, [2, {}]]),
        json!([{ "a": 1 }, { "b": { "c": true } }]),
        json!("\"\\ // # /* \n\u{7f}é\u{1f980}"),
        json!(""),
        json!("1979-05-27"),
        json!(true),
        json!(-7),
        json!(i64::MAX),
        json!(0.5),
    ]
}
