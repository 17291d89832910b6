//! Renders changes as a unified diff.

use similar::TextDiff;

use crate::write::{Action, Change};

/// Renders the diff of all changes. Returns an empty string if there are none.
pub fn render(changes: &[Change]) -> String {
    changes.iter().filter(|change| change.action() != Action::Unchanged).map(render_change).collect()
}

fn render_change(change: &Change) -> String {
    let before = change.before.as_deref();
    let after = change.after.as_deref();
    let is_text = |bytes: Option<&[u8]>| bytes.is_none_or(|bytes| !bytes.contains(&0));
    if !is_text(before) || !is_text(after) {
        return format!("{} is not text: {}\n", change.shown, describe_sizes(change));
    }
    let before = String::from_utf8_lossy(before.unwrap_or_default());
    let after = String::from_utf8_lossy(after.unwrap_or_default());
    let side = |present: bool, letter: char| {
        if present { format!("{letter}/{}", change.shown) } else { "/dev/null".to_owned() }
    };
    TextDiff::from_lines(before.as_ref(), after.as_ref())
        .unified_diff()
        .header(&side(change.before.is_some(), 'a'), &side(change.after.is_some(), 'b'))
        .to_string()
}

/// Describes the sizes of a binary file before and after.
fn describe_sizes(change: &Change) -> String {
    match (&change.before, &change.after) {
        (None, Some(after)) => format!("{} bytes", after.len()),
        (Some(before), None) => format!("{} bytes go", before.len()),
        (Some(before), Some(after)) => format!("{} bytes become {}", before.len(), after.len()),
        (None, None) => String::new(),
    }
}
