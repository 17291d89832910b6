//! The files of a build context. Nothing outside of its directory is reachable: not through `..`, and not through links.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use koze_image::{Entry, EntryKind, Tree};

use super::failure::{Failure, Result};
use super::ignored::Ignored;
use crate::images::Recipe;
use crate::paths;
use crate::write::{beneath, input};

/// The name of the rules, in the context or as an ending of the Dockerfile's name.
const IGNORE_FILE: &str = ".dockerignore";

/// A Dockerfile with its build context.
#[derive(Debug)]
pub(super) struct Context {
    /// The Dockerfile, without links.
    pub(super) dockerfile: PathBuf,
    /// Its name for people: relative to the repository.
    pub(super) shown: String,
    /// Its text.
    pub(super) text: String,
    /// The directory of the context, without links.
    pub(super) directory: PathBuf,
    /// The files in it, also the ignored ones.
    pub(super) tree: Tree,
    ignored: Ignored,
}

impl Context {
    /// Opens the context of a recipe.
    pub(super) fn open(recipe: &Recipe) -> Result<Self> {
        let shown = paths::relative(&recipe.dockerfile, &recipe.root);
        let in_root = |path: &Path| beneath::resolve(&recipe.root, path).map_err(Failure::new);
        let dockerfile = in_root(&recipe.dockerfile)?;
        let directory = in_root(&recipe.context)?;
        let text = input::read_text(&dockerfile).map_err(Failure::new)?;
        let tree = Tree::of_directory(&directory).map_err(Failure::at("open", &directory))?;
        let mut beside = dockerfile.clone().into_os_string();
        beside.push(IGNORE_FILE);
        let mut ignored = Ignored::default();
        // Rules for one Dockerfile come before those of the context.
        for path in [PathBuf::from(beside), directory.join(IGNORE_FILE)] {
            if path.symlink_metadata().is_err() {
                continue;
            }
            let rules = input::read_text_in(&recipe.root, &path).map_err(Failure::new)?;
            let file = paths::relative(&path, &recipe.root);
            ignored = Ignored::parse(&rules).map_err(|(line, why)| {
                Failure::new(format!("{file}:{line}: this is not a pattern of files: {why}"))
            })?;
            break;
        }
        Ok(Context { dockerfile, shown, text, directory, tree, ignored })
    }

    /// Returns whether a path is left out of the context.
    pub(super) fn ignores(&self, path: &Path) -> bool {
        self.ignored.ignores(path)
    }

    /// Returns the entries at and below a path that are not ignored, by their paths.
    pub(super) fn list(&self, from: &Path) -> io::Result<BTreeMap<PathBuf, Entry>> {
        list_entries(&self.tree, from, Some(&self.ignored))
    }
}

/// Returns the entries at and below a path that are not ignored, by their paths. A directory that contains such an entry is one, too.
pub(super) fn list_entries(
    tree: &Tree,
    from: &Path,
    ignored: Option<&Ignored>,
) -> io::Result<BTreeMap<PathBuf, Entry>> {
    let mut found = BTreeMap::new();
    let mut left_out = Vec::new();
    let mut pending = vec![from.to_owned()];
    while let Some(path) = pending.pop() {
        let Some(entry) = tree.find(&path)? else { continue };
        let is_ignored = ignored.is_some_and(|ignored| ignored.ignores(&path));
        let is_directory = entry.kind == EntryKind::Directory;
        if is_directory && (!is_ignored || ignored.is_some_and(Ignored::has_exceptions)) {
            pending.extend(tree.list(&entry)?.into_iter().map(|name| path.join(name)));
        }
        if !is_ignored {
            found.insert(path, entry);
        } else if is_directory {
            left_out.push((path, entry));
        }
    }
    // A directory was found before what it contains, so the last one is the innermost.
    for (path, entry) in left_out.into_iter().rev() {
        if found.range(path.clone()..).next().is_some_and(|(next, _)| next.starts_with(&path)) {
            found.insert(path, entry);
        }
    }
    Ok(found)
}
