//! What a command changes beside what a build writes: sources, settings, names. It is built as if it were on the disk,
//! and reaches the disk with the rest, all or nothing.

use std::path::{Path, PathBuf};

use crate::wrangler::document::Edit;

/// Changes that a command brings to a build.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// Files, in the order in which they are written: where they lie, and what is to stand in them; `None` takes one
    /// away.
    pub files: Vec<(PathBuf, Option<Vec<u8>>)>,
    /// Settings of the wrangler configuration that are no blocks of sandboxes.
    pub settings: Vec<Edit>,
    /// Classes that go on under another name: old, new.
    pub renames: Vec<(String, String)>,
}

impl Draft {
    /// What is to become of a file: its new content, `None` where it goes; nothing where the draft leaves it alone.
    pub fn file(&self, path: &Path) -> Option<Option<&[u8]>> {
        self.files.iter().find(|(drafted, _)| drafted == path).map(|(_, bytes)| bytes.as_deref())
    }

    /// The files that are to be there and whose names end in `suffix`.
    pub fn ending<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = &'a Path> {
        let stays = |(path, bytes): &'a (PathBuf, Option<Vec<u8>>)| bytes.is_some().then_some(path.as_path());
        let named =
            move |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(suffix));
        self.files.iter().filter_map(stays).filter(named)
    }
}
