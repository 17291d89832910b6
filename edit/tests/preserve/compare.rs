//! Compares texts.

/// Returns whether `part` is a subsequence of the characters of `whole`.
pub(crate) fn is_within(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|wanted| rest.any(|found| found == wanted))
}

/// Returns the text without white space.
pub(crate) fn tight(text: &str) -> String {
    text.split_ascii_whitespace().collect()
}
