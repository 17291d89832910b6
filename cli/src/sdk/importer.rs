//! The package whose version of the SDK is determined, and what the readers of all lock files share.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::PACKAGE;
use crate::paths;
use crate::write::input;

/// The dependency lists of a `package.json`, which lock files copy.
pub(super) const LISTS: [&str; 3] = ["dependencies", "devDependencies", "optionalDependencies"];

/// A file with an invalid format.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The expected format.
    pub(super) format: &'static str,
    /// The byte offset, if the parser reports one.
    pub(super) at: Option<usize>,
    /// The parser's message.
    pub(super) message: Option<String>,
}

/// The package that imports the SDK. The lock file of a workspace may contain several versions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Importer<'a> {
    /// The project's directory.
    pub(super) project: &'a Path,
    /// The directory of the lock file: the project's or a parent.
    pub(super) root: &'a Path,
}

impl Importer<'_> {
    /// Returns the directories in which Node looks for the SDK, from the project upward, relative to the lock file; `.`
    /// is the lock file's own directory.
    pub(super) fn dirs(&self) -> impl Iterator<Item = String> {
        let within = self.project.ancestors().take_while(|dir| dir.starts_with(self.root));
        within.map(|dir| paths::relative(dir, self.root))
    }

    /// Returns the range that the nearest `package.json` requests.
    pub(super) fn range(&self) -> Option<String> {
        self.dirs().find_map(|dir| {
            let text = input::read_text(&self.root.join(dir).join("package.json")).ok()?;
            let package = json(text.trim_start_matches('\u{feff}')).ok()?;
            requested_range(&package).map(str::to_owned)
        })
    }
}

/// Parses JSON.
pub(super) fn json(text: &str) -> Result<Value, Wrong> {
    serde_json::from_str(text).map_err(|error| Wrong {
        format: "JSON",
        at: Some(super::byte_offset(text, error.line(), error.column())),
        message: Some(error.to_string()),
    })
}

/// Returns the range that a `package.json` requests.
fn requested_range(package: &Value) -> Option<&str> {
    LISTS.iter().find_map(|kind| package.get(kind)?.get(PACKAGE)?.as_str())
}

/// Returns the version if all are equal. Several different versions are ambiguous.
pub(super) fn only(versions: impl Iterator<Item = String>) -> Option<String> {
    let versions: BTreeSet<String> = versions.collect();
    let mut versions = versions.into_iter();
    versions.next().filter(|_| versions.next().is_none())
}
