//! Renders changes as a unified diff.

use similar::TextDiff;

use crate::write::{Action, Change};

/// Renders the diff of all changes. Returns an empty string if there are none.
pub fn render(changes: &[Change]) -> String {
    changes.iter().filter(|change| change.action() != Action::Unchanged).map(one).collect()
}

fn one(change: &Change) -> String {
    let is_text = |bytes: &Option<Vec<u8>>| bytes.as_deref().is_none_or(|bytes| !bytes.contains(&0));
    if !is_text(&change.before) || !is_text(&change.after) {
        return format!("{} is not text: {}\n", change.shown, sizes(change));
    }
    let text =
        |bytes: &Option<Vec<u8>>| String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned();
    let (before, after) = (text(&change.before), text(&change.after));
    let side = |present: bool, letter: char| {
        if present { format!("{letter}/{}", change.shown) } else { "/dev/null".to_owned() }
    };
    TextDiff::from_lines(&before, &after)
        .unified_diff()
        .header(&side(change.before.is_some(), 'a'), &side(change.after.is_some(), 'b'))
        .to_string()
}

/// Describes the sizes of a binary file before and after.
fn sizes(change: &Change) -> String {
    match (&change.before, &change.after) {
        (None, Some(after)) => format!("{} bytes", after.len()),
        (Some(before), None) => format!("{} bytes go", before.len()),
        (Some(before), Some(after)) => format!("{} bytes become {}", before.len(), after.len()),
        (None, None) => String::new(),
    }
}
