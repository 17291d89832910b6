//! The properties of every text and every batch of edits, for property tests and fuzz targets.

use koze_edit::{Document, Edit, Format, Path, Step};
use serde_json::{Value, json};

use crate::compare::{is_within, tight};
use crate::edits::*;

/// The table that is kept last, if a document has it.
const LAST: &str = "env";

/// Returns the comments of a JSONC text that are outside the values at `paths`.
fn comments(document: &Document, paths: &[&Path]) -> Vec<String> {
    let gone: Vec<_> = paths.iter().filter_map(|path| document.range(path)).collect();
    let text = document.text();
    let (mut found, mut place, mut string) = (Vec::new(), 0, false);
    while let Some(first) = text[place..].chars().next() {
        let rest = &text[place..];
        let mut length = first.len_utf8();
        match first {
            '\\' if string => length = 2,
            '"' => string = !string,
            '/' if !string => {
                let end = if rest.starts_with("//") {
                    rest.find(['\r', '\n'])
                } else {
                    rest.find("*/").map(|end| end + 2)
                };
                length = end.unwrap_or(rest.len());
                if !gone.iter().any(|range| range.contains(&place)) {
                    found.push(rest[..length].to_owned());
                }
            }
            _ => {}
        }
        place += length;
    }
    found
}

/// Returns whether an edit affects a container that is or becomes empty, where white space may change.
fn fills_empty(root: &Value, edits: &[Edit]) -> bool {
    edits.iter().any(|edit| {
        let path = path_of(edit);
        let deepest = (0..=path.len()).rev().find_map(|length| find(root, &path[..length]));
        deepest.is_some_and(|value| *value == json!({}) || *value == json!([]))
    })
}

/// Returns the removals that undo pushes.
fn undo(root: &Value, edits: &[Edit]) -> Vec<Edit> {
    let removal = |(place, edit): (usize, &Edit)| {
        let path = path_of(edit);
        let path = if let Some(array) = find(root, path) {
            let before = edits[..place].iter().filter(|other| path_of(other) == path).count();
            let index = array.as_array().map_or(0, Vec::len) + before;
            [path.clone(), vec![Step::from(index)]].concat()
        } else {
            let known = (0..path.len()).rev().find(|length| find(root, &path[..*length]).is_some());
            path[..=known.expect("the root at least")].to_vec()
        };
        Edit::Remove { path }
    };
    edits.iter().enumerate().map(removal).collect()
}

pub(crate) fn parse(format: Format, text: &str) -> Document {
    Document::parse(format, text).unwrap_or_else(|error| panic!("{error:?} in\n{text}"))
}

/// Checks that a batch of pushes only inserts text, and that removing the pushed entries restores it.
pub(crate) fn check_pushes(format: Format, text: &str, root: &Value, seeds: &[Seed]) {
    let edits = edits(root, seeds, format, true);
    check_undo(&parse(format, text), root, &edits);
    if root.get(LAST).is_some() {
        check_undo(&parse(format, text).keep_last(LAST), root, &edits);
    }
}

fn check_undo(document: &Document, root: &Value, edits: &[Edit]) {
    let (format, text) = (document.format(), document.text());
    let pushed = parse(format, &document.apply(edits));
    if fills_empty(root, edits) {
        assert!(is_within(&tight(text), &tight(pushed.text())), "{text}\n---\n{}", pushed.text());
        return;
    }
    assert!(is_within(text, pushed.text()), "{text}\n---\n{}", pushed.text());
    let back = pushed.apply(&undo(root, edits));
    assert_eq!(back, text, "{}", pushed.text());
}

/// Checks that the bytes outside the edited values are unchanged.
fn check_untouched(root: &Value, edits: &[Edit], before: &Document, after: &Document) {
    let shifts = edits.iter().any(|edit| match edit {
        Edit::Remove { path } => matches!(path.last(), Some(Step::Index(_))),
        _ => false,
    });
    for path in paths(root) {
        let touched = edits.iter().map(path_of);
        let touched = touched.into_iter().any(|p| p.starts_with(&path) || path.starts_with(p));
        let bytes =
            |document: &Document| document.range(&path).map(|range| document.text()[range].to_owned());
        assert!(shifts || touched || bytes(before) == bytes(after), "{path:?}\n{}", after.text());
    }
}

/// Checks that a batch does what its edits say, with and without a table that is kept last.
pub(crate) fn check_edits(format: Format, text: &str, root: &Value, seeds: &[Seed]) {
    let edits = edits(root, seeds, format, false);
    check_batch(&parse(format, text), root, &edits);
    if root.get(LAST).is_some() {
        check_batch(&parse(format, text).keep_last(LAST), root, &edits);
    }
}

fn check_batch(document: &Document, root: &Value, edits: &[Edit]) {
    let (format, text) = (document.format(), document.text());
    assert_eq!(document.value(), root);
    assert_eq!(document.apply(&[]), text, "no edits change nothing");
    let result = parse(format, &document.apply(edits));
    let want = model(root, edits);
    let context = || format!("{edits:?}\n{text}\n---\n{}", result.text());
    if format == Format::Toml {
        assert_eq!(without_empty(result.value()), without_empty(&want), "{}", context());
        return;
    }
    assert_eq!(*result.value(), want, "{}", context());
    check_untouched(root, edits, document, &result);
    // Only comments inside removed values may be lost.
    let changed = edits.iter().filter(|edit| !matches!(edit, Edit::Push { .. }));
    let gone: Vec<&Path> = changed.map(path_of).collect();
    let after = comments(&result, &[]);
    let mut rest = after.iter();
    for comment in comments(document, &gone) {
        assert!(rest.any(|found| *found == comment), "{comment} lost: {}", context());
    }
}

/// Checks all properties for an arbitrary text. An invalid one must be rejected at a location in it.
pub(crate) fn check_any(format: Format, text: &str, seeds: &[Seed]) {
    let document = match Document::parse(format, text) {
        Ok(document) => document,
        Err(error) => {
            assert!(text.get(error.range.clone()).is_some(), "{error:?} is no place in\n{text}");
            return;
        }
    };
    let root = document.value().clone();
    for path in paths(&root) {
        let range = document.range(&path).unwrap_or_else(|| panic!("no place of {path:?} in\n{text}"));
        assert!(text.get(range).is_some(), "{path:?} in\n{text}");
    }
    check_edits(format, text, &root, seeds);
    check_pushes(format, text, &root, seeds);
}
