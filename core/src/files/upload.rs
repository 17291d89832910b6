//! Assembles a file at a staging path and renames it, so that a partial file is never visible.

use super::http::{Conditions, Refused};
use super::resolve;
use crate::detach::run_detached;
use crate::error::{Code, Error, Result};
use crate::path::anywhere;
use crate::sandbox::{Sandbox, Stat, lost};

/// How much is collected before it is written.
const PIECE: usize = 4 << 20;

/// A file that is being written. Dropping it removes what was written, and the file at the path stays as it is.
#[derive(Debug)]
pub struct Upload<S: Sandbox> {
    sandbox: Option<S>,
    path: String,
    target: String,
    staging: String,
    conditions: Conditions,
    before: Option<Stat>,
    mode: Option<u32>,
    collected: Vec<u8>,
    /// How many bytes are at the staging path, once it exists.
    written: Option<u64>,
}

impl<S: Sandbox> Upload<S> {
    /// Begins to write a file. Follows a symbolic link at the end of the path, inside the sandbox. Missing parent directories are
    /// created.
    ///
    /// # Errors
    /// [`Refused::Failed`] if the file does not meet the conditions, [`Code::IsDirectory`] if it is a directory, and the errors of
    /// the sandbox.
    pub async fn begin(
        sandbox: S,
        path: &str,
        conditions: Conditions,
    ) -> std::result::Result<Upload<S>, Refused> {
        let (target, before) = resolve(&sandbox, path).await?;
        conditions.check_write(before.as_ref())?;
        let Some((parent, name)) = target.rsplit_once('/') else {
            return Err(Error::new(Code::InvalidInput, "a path must be absolute").into());
        };
        if matches!(name, "" | "." | "..") {
            return Err(Error::new(
                Code::IsDirectory,
                format!("`{path}` does not end in the name of a file"),
            )
            .into());
        }
        let staging = format!("{parent}/.koze-upload-{}", uuid::Uuid::new_v4().simple());
        // If recording fails, a crash may leave a partial file, which is no reason not to write.
        let _ = sandbox.record_staging(&staging).await;
        Ok(Upload {
            sandbox: Some(sandbox),
            path: path.to_owned(),
            target,
            staging,
            conditions,
            mode: before.as_ref().map(|before| before.mode),
            before,
            collected: Vec::new(),
            written: None,
        })
    }

    /// Sets the permission bits that the file gets if it is new.
    pub fn set_mode_of_new(&mut self, mode: u32) {
        self.mode.get_or_insert(mode);
    }

    /// Returns the staging path, for a host that creates the file there and writes it without [`push`](Self::push).
    pub fn staging(&self) -> &str {
        &self.staging
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the container has restarted since the last call, and those of the sandbox.
    pub async fn push(&mut self, bytes: &[u8]) -> Result<()> {
        for part in bytes.chunks(PIECE) {
            self.collected.extend_from_slice(part);
            if self.collected.len() >= PIECE {
                self.write_collected().await?;
            }
        }
        Ok(())
    }

    /// Puts the file at its path. Returns its metadata, and whether it did not exist before.
    ///
    /// # Errors
    /// [`Refused::Failed`] if the file at the path no longer meets the conditions, and the errors of the sandbox.
    pub async fn finish(mut self) -> std::result::Result<(Stat, bool), Refused> {
        if !self.collected.is_empty() || self.written.is_none() {
            self.write_collected().await?;
        }
        self.move_to_target().await
    }

    /// The same, for a file that a host has written at the staging path.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub async fn finish_staged(mut self) -> std::result::Result<(Stat, bool), Refused> {
        self.move_to_target().await
    }

    async fn move_to_target(&mut self) -> std::result::Result<(Stat, bool), Refused> {
        let sandbox = self.sandbox.clone().ok_or_else(already_placed_error)?;
        let placed = async {
            if let Some(mode) = self.mode {
                sandbox.set_mode(anywhere(&self.staging), mode).await?;
            }
            if !self.conditions.is_empty() {
                let (_, now) = resolve(&sandbox, &self.path).await?;
                self.conditions.check_write(now.as_ref())?;
            }
            sandbox.rename(anywhere(&self.staging), anywhere(&self.target)).await?;
            Ok(())
        };
        let placed: std::result::Result<(), Refused> = placed.await;
        placed.map_err(|refused| match refused {
            Refused::Error(error) => Refused::Error(self.placed_error(error)),
            Refused::Failed => Refused::Failed,
        })?;
        self.sandbox = None;
        // Without a file at the path, a remaining record is harmless.
        let _ = sandbox.forget_staging(&self.staging).await;
        let stat = sandbox.stat(anywhere(&self.target)).await.map_err(|error| self.placed_error(error))?;
        Ok((stat, self.before.is_none()))
    }

    async fn write_collected(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.collected);
        let sandbox = self.sandbox.as_ref().ok_or_else(already_placed_error)?;
        let written =
            sandbox.write_at(anywhere(&self.staging), self.written.unwrap_or_default(), bytes).await;
        self.written = Some(written.map_err(|error| self.reworded(error))?);
        Ok(())
    }

    /// Returns an error after everything was written. If the file is missing then, it was lost.
    fn placed_error(&self, error: Error) -> Error {
        let is_lost = error.code == Code::NotFound;
        if is_lost { lost(&self.path).with_source(error) } else { self.reworded(error) }
    }

    /// Returns an error of the staging path as one of the file.
    pub fn reworded(&self, mut error: Error) -> Error {
        error.message = error.message.replace(&self.staging, &self.path);
        error
    }
}

impl<S: Sandbox> Drop for Upload<S> {
    fn drop(&mut self) {
        let Some(sandbox) = self.sandbox.take() else { return };
        let staging = std::mem::take(&mut self.staging);
        run_detached(async move {
            let removed = sandbox.remove(anywhere(&staging)).await;
            // A sandbox that does not answer removes it at its next start.
            if !matches!(removed, Err(Error { code: Code::Unavailable, .. })) {
                let _ = sandbox.forget_staging(&staging).await;
            }
        });
    }
}

fn already_placed_error() -> Error {
    Error::new(Code::Internal, "the file is already at its path")
}
