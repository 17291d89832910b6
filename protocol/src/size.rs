//! Sizes as users write them.

/// The units of sizes, with the number of bytes in each.
const UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// Splits a size such as `50MB` into the text before its unit, and the number of bytes in the unit.
pub fn split_unit(text: &str) -> Option<(&str, u64)> {
    UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))
}
