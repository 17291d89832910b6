//! Limits the length of results. Lengths are in characters.

/// Keeps the head and the tail of an output. `lost` characters are already missing in the middle of it.
pub(super) fn keep_ends(text: String, lost: usize, most: usize) -> String {
    let length = text.chars().count();
    if length <= most && lost == 0 {
        return text;
    }
    let mark = |skipped: usize| format!("\n... [middle truncated: {skipped} chars skipped] ...\n");
    let kept = most.saturating_sub(mark(length + lost).len()).min(length);
    let (head, tail) = (kept / 2, kept - kept / 2);
    let (front, back) = (start_of(&text, head), start_of(&text, length - tail));
    format!("{}{}{}", &text[..front], mark(length + lost - kept), &text[back..])
}

/// Keeps the head of a text of `total` characters, of which at least the first `most` are given. `hint` says what else
/// to do.
pub(super) fn keep_head(text: &str, total: usize, most: usize, hint: &str) -> String {
    if total <= most {
        return text.to_owned();
    }
    let mark =
        |shown: usize| format!("\n... [truncated: showing first {shown} of {total} chars. {hint}] ...");
    let kept = most.saturating_sub(mark(total).chars().count());
    format!("{}{}", &text[..start_of(text, kept)], mark(kept))
}

/// Returns the byte offset of a character.
fn start_of(text: &str, character: usize) -> usize {
    text.char_indices().nth(character).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_within_the_limit() {
        assert_eq!(keep_ends("ä".repeat(100), 0, 100), "ä".repeat(100));
        let cut = keep_ends("ä".repeat(500), 0, 100);
        assert_eq!(cut.chars().count(), 100);
        let mark = "\n... [middle truncated: 447 chars skipped] ...\n";
        assert_eq!(cut, format!("{0}{mark}{0}ä", "ä".repeat(26)));
        let cut = keep_head(&"ä".repeat(500), 500, 100, "Go on.");
        // Room was left for a longer number.
        assert_eq!(cut.chars().count(), 99);
        assert!(cut.ends_with("ä\n... [truncated: showing first 40 of 500 chars. Go on.] ..."), "{cut}");
        assert_eq!(keep_head("ab", 2, 2, ""), "ab");
    }

    #[test]
    fn what_is_already_missing_counts() {
        let cut = keep_ends("a".repeat(1000), 5000, 200);
        // The mark has two of them.
        let kept = cut.chars().filter(|character| *character == 'a').count() - 2;
        assert!(cut.len() <= 200 && cut.contains(&format!(": {} chars skipped]", 6000 - kept)), "{cut}");
    }
}
