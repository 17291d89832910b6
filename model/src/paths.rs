//! Paths by their words alone: nothing is looked up.

use std::path::{Component, Path, PathBuf};

/// Takes `.` and `..` out of a path: a module's `#[path]` gives `src/generated/../server/shell.sandbox.rs`.
pub fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}
