//! Renames an identifier in a file.

use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};

/// Replaces every identifier `old`. Keeps comments and strings, and returns text that is not Rust unchanged.
///
/// `text` must not contain a byte order mark.
pub fn rename(text: &str, old: &str, new: &str) -> String {
    let mut found = Vec::new();
    collect_ranges(text.parse().unwrap_or_default(), old, &mut found);
    let mut renamed = text.to_owned();
    for range in found.into_iter().rev() {
        renamed.replace_range(range, new);
    }
    renamed
}

/// Collects the ranges of an identifier, in the order of the text.
fn collect_ranges(tokens: TokenStream, name: &str, found: &mut Vec<Range<usize>>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if ident == name => found.push(ident.span().byte_range()),
            TokenTree::Group(group) => collect_ranges(group.stream(), name, found),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_identifiers_are_renamed() {
        let text = "// Old\n/* ü */ struct Old;\nimpl X for Old { const A: &str = \"Old\"; }\nfn old() { m!(Old, Older) }\n";
        assert_eq!(
            rename(text, "Old", "Newer"),
            "// Old\n/* ü */ struct Newer;\nimpl X for Newer { const A: &str = \"Old\"; }\nfn old() { m!(Newer, Older) }\n"
        );
    }

    #[test]
    fn text_that_is_not_rust_is_unchanged() {
        assert_eq!(rename("struct Old { \"", "Old", "New"), "struct Old { \"");
    }
}
