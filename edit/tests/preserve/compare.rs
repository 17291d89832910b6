//! What two texts have in common.

/// Whether `part` is what is left of `whole` when some characters are taken away.
pub(crate) fn is_within(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|wanted| rest.any(|found| found == wanted))
}

/// The text without white space.
pub(crate) fn tight(text: &str) -> String {
    text.split_ascii_whitespace().collect()
}
