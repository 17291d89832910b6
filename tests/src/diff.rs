//! Compares snapshots of a directory as a diff.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use similar::TextDiff;

/// The files of a directory: paths with `/`, and contents.
pub type Snapshot = BTreeMap<String, Vec<u8>>;

/// Returns the unified diff of all files that differ, ordered by path.
///
/// A carriage return is shown as `␍` and a byte order mark as `<BOM>`, so that changes of them are visible. A new or
/// deleted file has `/dev/null` on its other side.
pub fn diff(before: &Snapshot, after: &Snapshot) -> String {
    let paths: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let mut all = String::new();
    for path in paths {
        let (old, new) = (before.get(path), after.get(path));
        if old == new {
            continue;
        }
        let header = |side: Option<&Vec<u8>>, prefix| match side {
            Some(_) => format!("{prefix}/{path}"),
            None => "/dev/null".to_owned(),
        };
        let (old_name, new_name) = (header(old, "a"), header(new, "b"));
        let (old, new) = (visible(old), visible(new));
        let diff = TextDiff::from_lines(&old, &new);
        let hunks = diff.unified_diff().header(&old_name, &new_name).to_string();
        if hunks.is_empty() {
            // An empty file has no differing lines, so print the names here.
            let _ = writeln!(all, "--- {old_name}\n+++ {new_name}");
        } else {
            all += &hunks;
        }
    }
    all
}

fn visible(content: Option<&Vec<u8>>) -> String {
    let text = content.map(|bytes| String::from_utf8_lossy(bytes)).unwrap_or_default();
    text.replace('\r', "␍").replace('\u{feff}', "<BOM>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(files: &[(&str, &str)]) -> Snapshot {
        files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn diff_of_changed_new_deleted_and_equal_files() {
        let before = snapshot(&[("a", "1\r\n2\r\n"), ("b", "same\n"), ("gone", "x\n"), ("z", "")]);
        let after = snapshot(&[("a", "1\n2\r\n"), ("b", "same\n"), ("new", "\u{feff}y")]);
        assert_eq!(
            diff(&before, &after),
            "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-1␍\n+1\n 2␍\n\
             --- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
             --- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+<BOM>y\n\\ No newline at end of file\n\
             --- a/z\n+++ /dev/null\n"
        );
        assert_eq!(diff(&before, &before), "");
    }
}
