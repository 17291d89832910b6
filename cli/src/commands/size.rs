//! Sizes as text.

/// Returns a size in the largest unit of which there is at least one.
pub(super) fn format_bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(size, _)| bytes >= *size);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(size, unit)| format!("{}.{} {unit}", bytes / size, bytes % size * 10 / size),
    )
}

/// Parses a size.
///
/// # Errors
/// Returns a message about the argument.
#[cfg(namespaces)]
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let parsed = || {
        let (number, unit) = koze_protocol::split_unit(text)?;
        number.trim_end().parse::<u64>().ok()?.checked_mul(unit)
    };
    parsed().ok_or_else(|| {
        format!("`{}` is not a size: write one such as 500MB, 20GB or 20GiB", text.escape_debug())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 1023, 1024, 1536, 1 << 20, (5 << 30) - 1].map(format_bytes);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "4.9 GiB"]);
    }

    #[cfg(namespaces)]
    #[test]
    fn sizes_have_units() {
        for (text, size) in
            [("20GB", 20_000_000_000), ("1 GiB", 1 << 30), ("5MiB", 5 << 20), ("7B", 7), ("0B", 0)]
        {
            assert_eq!(parse(text), Ok(size));
        }
        for text in ["", "20", "GB", "-1GB", "1.5GB", "1TB", "99999999999GB", "1gb"] {
            assert!(parse(text).unwrap_err().contains("is not a size"), "{text}");
        }
    }
}
