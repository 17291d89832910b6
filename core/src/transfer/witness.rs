//! Notices that a sandbox's container was replaced between the calls that create a tree. A new container has none of the files
//! of the earlier calls, but later calls would create the missing directories again.

use crate::error::{Code, Error, Result};
use crate::sandbox::{Place, Sandbox, lost};

/// An empty file in the tree, whose random name no other container has.
pub(crate) struct Witness {
    root: String,
    dir: String,
    path: String,
}

impl Witness {
    /// Creates the file in a directory.
    ///
    /// # Errors
    /// Those of the sandbox.
    pub(crate) async fn create_in<S: Sandbox>(sandbox: &S, dir: Place<'_>) -> Result<Witness> {
        let path =
            format!("{}/.koze-witness-{}", dir.path.trim_end_matches('/'), uuid::Uuid::new_v4().simple());
        sandbox.write_at(Place { path: &path, ..dir }, 0, Vec::new()).await?;
        Ok(Witness { root: dir.root.to_owned(), dir: dir.path.to_owned(), path })
    }

    /// Removes the file.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if it is gone, and the errors of the sandbox.
    pub(crate) async fn remove<S: Sandbox>(self, sandbox: &S) -> Result<()> {
        let removed = sandbox.remove(Place { root: &self.root, path: &self.path }).await;
        removed.map_err(|error| lost_if_missing(error, &self.dir))
    }
}

/// Returns the error of a step after the first one: what is missing by then was lost.
pub(crate) fn lost_if_missing(error: Error, path: &str) -> Error {
    if error.code == Code::NotFound { lost(path).with_source(error) } else { error }
}
