//! The key of a build with an engine: a digest of everything that koze knows to change its result.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use koze_image::{Entry, EntryKind, StepKey, Tree};
use sha2::{Digest as _, Sha256};

use super::context::Context;
use super::failure::{Failure, Result};
use crate::images::Recipe;

/// Changes when an engine is called in another way.
const VERSION: &str = "engine 1";

/// Returns the key of a build: of the Dockerfile, the build arguments, and all files of the context that are not ignored.
pub(super) fn compute_key(recipe: &Recipe, context: &Context) -> Result<StepKey> {
    let mut parts: Vec<Vec<u8>> = vec![VERSION.into(), context.text.as_bytes().to_vec()];
    parts.push(recipe.vars.len().to_string().into_bytes());
    for (name, value) in &recipe.vars {
        parts.extend([name.clone().into_bytes(), value.clone().into_bytes()]);
    }
    let unreadable = |path: &Path| Failure::at("read", &context.directory.join(path));
    let entries = context.list(Path::new("")).map_err(unreadable(Path::new("")))?;
    for (path, entry) in &entries {
        parts.push(path.as_os_str().as_bytes().to_vec());
        parts.push(hash_entry(&context.tree, entry).map_err(unreadable(path))?);
    }
    Ok(StepKey::new(parts))
}

/// Returns a digest of what an entry is: its type, its permissions, and its content. Its time does not matter.
pub(super) fn hash_entry(tree: &Tree, entry: &Entry) -> io::Result<Vec<u8>> {
    let mut hasher = Hasher(Sha256::new());
    match entry.kind {
        EntryKind::Directory => write!(hasher, "directory {:o}", entry.mode)?,
        EntryKind::File => {
            write!(hasher, "file {:o} ", entry.mode)?;
            io::copy(&mut tree.open_file(entry)?, &mut hasher)?;
        }
        EntryKind::Link => {
            write!(hasher, "link ")?;
            hasher.write_all(tree.read_link(entry)?.as_os_str().as_bytes())?;
        }
        // A pipe or a socket, which is never opened.
        EntryKind::Other => write!(hasher, "other")?,
    }
    Ok(hasher.0.finalize().to_vec())
}

/// Hashes what is written.
struct Hasher(Sha256);

impl Write for Hasher {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.update(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
