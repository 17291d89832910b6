//! Lexical operations on paths, without file system access.

use std::path::{Component, Path, PathBuf};

/// Removes `.` and `..` from a path. A module's `#[path]` gives `src/generated/../server/shell.sandbox.rs`.
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
