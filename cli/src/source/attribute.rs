//! Edits the keys of `#[sandbox(..)]` in a sandbox file.

use std::ops::Range;

use koze_model::{Kind, Report, depth, syntax};
use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Meta, Token};

/// A change to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Sets `key = value`, in its current place or at the end.
    Set(&'static str, String),
    /// Removes a key.
    Remove(&'static str),
    /// Replaces a key by another entry.
    Replace(&'static str, String),
}

/// Applies the changes in order and keeps all other bytes. Returns text without a sandbox unchanged.
///
/// `text` must not contain a byte order mark.
pub fn edit(text: &str, changes: &[Change]) -> String {
    changes.iter().fold(text.to_owned(), |text, change| apply_change(&text, change).unwrap_or(text))
}

/// Returns the texts of the attribute's entries, without the comments between them.
///
/// `text` must not contain a byte order mark.
pub fn entries(text: &str) -> Vec<String> {
    let entries = depth::parse_file(text).ok().and_then(|file| {
        let found = syntax::find(&file, Kind::Sandbox, "", &mut Report::new())?;
        parse_entries(&found.tokens)
    });
    entries.into_iter().flatten().map(|entry| text[entry.range].to_owned()).collect()
}

/// An argument of the attribute: its key, its range, and the end of the following comma.
struct Argument {
    key: String,
    range: Range<usize>,
    comma: Option<usize>,
}

fn apply_change(text: &str, change: &Change) -> Option<String> {
    let file = depth::parse_file(text).ok()?;
    let found = syntax::find(&file, Kind::Sandbox, "", &mut Report::new())?;
    let attribute = &found.item.attrs[found.attribute];
    let entries = parse_entries(&found.tokens)?;
    let at = |key: &str| entries.iter().position(|entry| entry.key == key);
    let mut text = text.to_owned();
    match change {
        Change::Set(key, entry) | Change::Replace(key, entry) if at(key).is_some() => {
            text.replace_range(entries[at(key)?].range.clone(), entry);
        }
        Change::Replace(..) => {}
        Change::Remove(key) => {
            let Some(index) = at(key) else { return Some(text) };
            match &attribute.meta {
                // The list becomes empty.
                Meta::List(list) if entries.len() == 1 => {
                    let span = list.delimiter.span();
                    let (open, close) = (span.open().byte_range(), span.close().byte_range());
                    text.replace_range(open.start..close.end, "");
                }
                _ => remove_entry(&mut text, &entries, index),
            }
        }
        Change::Set(_, entry) => match (entries.last(), &attribute.meta) {
            (Some(last), _) => append_entry(&mut text, last, entry),
            (None, Meta::List(list)) => {
                text.insert_str(list.delimiter.span().open().byte_range().end, entry);
            }
            (None, meta) => text.insert_str(token_range(meta)?.end, &format!("({entry})")),
        },
    }
    Some(text)
}

fn parse_entries(tokens: &TokenStream) -> Option<Vec<Argument>> {
    let metas = Punctuated::<Meta, Token![,]>::parse_terminated.parse2(tokens.clone()).ok()?;
    metas.pairs().map(|pair| to_argument(pair.value(), pair.punct().map(|comma| comma.span))).collect()
}

fn to_argument(meta: &Meta, comma: Option<Span>) -> Option<Argument> {
    let key = meta.path().get_ident()?.to_string();
    Some(Argument { key, range: token_range(meta)?, comma: comma.map(|comma| comma.byte_range().end) })
}

/// Returns the range that tokens span.
fn token_range(tokens: &impl ToTokens) -> Option<Range<usize>> {
    let mut spans = tokens.to_token_stream().into_iter().map(|token| token.span().byte_range());
    let first = spans.next()?;
    let end = spans.last().map_or(first.end, |last| last.end);
    Some(first.start..end)
}

/// Appends an entry after the last one, on its own line if the last one has its own.
fn append_entry(text: &mut String, last: &Argument, entry: &str) {
    let line = text[..last.range.start].rfind('\n').map_or(0, |newline| newline + 1);
    let indent = &text[line..last.range.start];
    let separator = if line > 0 && indent.trim().is_empty() { format!("\n{indent}") } else { " ".to_owned() };
    match last.comma {
        Some(end) => text.insert_str(end, &format!("{separator}{entry},")),
        None => text.insert_str(last.range.end, &format!(",{separator}{entry}")),
    }
}

/// Removes an entry, the comma that separates it, and its line if nothing else is on it.
fn remove_entry(text: &mut String, entries: &[Argument], index: usize) {
    let Argument { range, comma, .. } = &entries[index];
    if let (None, Some(before)) = (comma, index.checked_sub(1)) {
        text.replace_range(entries[before].range.end..range.end, "");
        return;
    }
    let end = comma.unwrap_or(range.end);
    let line = text[..range.start].rfind('\n').map_or(0, |newline| newline + 1);
    let rest = text[end..].find('\n').map_or(text.len(), |newline| end + newline + 1);
    if text[line..range.start].trim().is_empty() && text[end..rest].trim().is_empty() {
        text.replace_range(line..rest, "");
    } else {
        let spaces = text[end..].len() - text[end..].trim_start_matches([' ', '\t']).len();
        text.replace_range(range.start..end + spaces, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
use koze::prelude::*;

#[sandbox(
    variant = \"python\", // ü
    // Not many.
    max_instances = 3,
    default,
)]
pub struct A;
";

    fn set(entry: &str) -> Change {
        Change::Set("backend", entry.to_owned())
    }

    #[test]
    fn new_keys_follow_the_existing_layout() {
        let native = "backend = \"native\"";
        let of = |attribute: &str| edit(&format!("#[{attribute}]\nstruct A;\n"), &[set(native)]);
        assert_eq!(of("sandbox"), "#[sandbox(backend = \"native\")]\nstruct A;\n");
        assert_eq!(of("sandbox()"), "#[sandbox(backend = \"native\")]\nstruct A;\n");
        assert_eq!(
            of("koze::sandbox(default)"),
            "#[koze::sandbox(default, backend = \"native\")]\nstruct A;\n"
        );
        assert_eq!(of("sandbox(default,)"), "#[sandbox(default, backend = \"native\",)]\nstruct A;\n");
        assert_eq!(
            of("sandbox(backend = \"sdk\", default)"),
            "#[sandbox(backend = \"native\", default)]\nstruct A;\n"
        );
        assert_eq!(
            edit(LINES, &[set(native)]),
            LINES.replace("    default,\n", "    default,\n    backend = \"native\",\n")
        );
    }

    #[test]
    fn keys_are_removed_with_their_comma_and_line() {
        let without = |key| edit(LINES, &[Change::Remove(key)]);
        assert_eq!(without("default"), LINES.replace("    default,\n", ""));
        assert_eq!(without("variant"), LINES.replace("variant = \"python\", // ü", "// ü"));
        assert_eq!(without("image"), LINES);
        let of = |attribute: &str| {
            edit(&format!("#[{attribute}]\nstruct A;\n"), &[Change::Remove("image")])
                .lines()
                .next()
                .unwrap()
                .to_owned()
        };
        assert_eq!(of("sandbox(image = \"x:1\")"), "#[sandbox]");
        assert_eq!(of("sandbox(image = \"x:1\", default)"), "#[sandbox(default)]");
        assert_eq!(of("sandbox(default, image = \"x:1\")"), "#[sandbox(default)]");
        assert_eq!(
            of("sandbox(internet = true, image = \"x:1\", default)"),
            "#[sandbox(internet = true, default)]"
        );
    }

    #[test]
    fn entries_are_texts_without_comments() {
        assert_eq!(entries(LINES), ["variant = \"python\"", "max_instances = 3", "default"]);
        assert!(entries("#[sandbox]\nstruct A;").is_empty() && entries("struct A;").is_empty());
    }

    #[test]
    fn a_key_replaces_another_in_place() {
        let changes = [Change::Replace("variant", "image = \"x:1\"".to_owned()), set("backend = \"native\"")];
        let expected = LINES
            .replace("variant = \"python\"", "image = \"x:1\"")
            .replace("    default,\n", "    default,\n    backend = \"native\",\n");
        assert_eq!(edit(LINES, &changes), expected);
        assert_eq!(edit("struct A;", &changes), "struct A;");
    }
}
