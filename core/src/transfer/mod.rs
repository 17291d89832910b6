//! Copies files and directories between sandboxes, also of different providers. The copy is assembled at a staging path and
//! renamed, so a partial copy is never visible.

pub mod pieces;
pub(crate) mod witness;

use crate::detach::run_detached;
use crate::error::{Code, Error, Result};
use crate::path::{absolute, anywhere};
use crate::sandbox::{Kind, Sandbox, Stat, lost};

/// Copies a file, or a directory if `recursive` is set, to a path of another sandbox. Returns the bytes of all files.
/// Relative paths start at `/home/user`. Keeps modes, symbolic links and empty directories. Replaces an existing file, but
/// never a directory.
///
/// If the future is dropped, nothing is left behind. If the process is killed, a local sandbox removes the rest when it starts
/// again.
///
/// # Errors
/// [`Code::IsDirectory`] for a directory without `recursive`, or if the target of a file is a directory;
/// [`Code::AlreadyExists`] if the target of a directory exists; [`Code::TooLarge`] if the other sandbox is full; and the errors
/// of both sandboxes.
pub async fn transfer<S: Sandbox, T: Sandbox>(
    from: &S,
    from_path: &str,
    to: &T,
    to_path: &str,
    recursive: bool,
) -> Result<u64> {
    let (from_path, to_path) = (absolute(from_path)?, absolute(to_path)?);
    let from_path = match from_path.trim_end_matches('/') {
        "" => "/",
        path => path,
    };
    let is_directory = is_directory(from, from_path).await?;
    if is_directory && !recursive {
        let message = format!("`{from_path}` is a directory: set `recursive` to copy it with its contents");
        return Err(Error::new(Code::IsDirectory, message));
    }
    let copy =
        |staging: String| async move { from.copy_to(anywhere(from_path), to, anywhere(&staging)).await };
    assemble(to, &to_path, is_directory, copy).await
}

/// Puts a file or directory at an absolute path, completely or not at all: `create` creates it at a staging path and returns the
/// bytes of all files. Replaces an existing file, but never a directory.
///
/// If the future is dropped, nothing is left behind.
///
/// # Errors
/// [`Code::IsDirectory`] if the path of a file is a directory, [`Code::AlreadyExists`] if the path of a directory exists, and the
/// errors of `create` and of the sandbox.
pub async fn assemble<T: Sandbox, C: Future<Output = Result<u64>>>(
    to: &T,
    to_path: &str,
    is_directory: bool,
    create: impl FnOnce(String) -> C,
) -> Result<u64> {
    let to_path = to_path.trim_end_matches('/');
    if !to_path.is_empty()
        && let Ok(Stat { kind: Kind::Directory, .. }) = to.stat(anywhere(to_path)).await
    {
        let (code, what) = if is_directory {
            (Code::AlreadyExists, "already exists")
        } else {
            (Code::IsDirectory, "is a directory")
        };
        return Err(Error::new(code, format!("`{to_path}` {what}: use another path")));
    }
    create_staged(to, to_path, create).await
}

/// Puts what `create` creates at a staging path at an absolute path without a final slash, as [`assemble`] does.
pub(crate) async fn create_staged<T: Sandbox, R, C: Future<Output = Result<R>>>(
    to: &T,
    to_path: &str,
    create: impl FnOnce(String) -> C,
) -> Result<R> {
    let Some((parent, _)) = to_path.rsplit_once('/') else {
        return Err(Error::new(Code::IsDirectory, "`/` already exists: use a path below it"));
    };
    with_staging(to, parent, to_path, |staging| async move {
        let created = create(staging.clone()).await?;
        to.rename(anywhere(&staging), anywhere(to_path)).await?;
        Ok(created)
    })
    .await
}

/// Passes a staging path in a directory to `work`, which moves what it creates there to a target. If it fails, or if the future is
/// dropped, the staging path is removed.
pub(crate) async fn with_staging<T: Sandbox, R, W: Future<Output = Result<R>>>(
    to: &T,
    directory: &str,
    to_path: &str,
    work: impl FnOnce(String) -> W,
) -> Result<R> {
    let path = format!("{directory}/.koze-transfer-{}", uuid::Uuid::new_v4().simple());
    // If recording fails, a crash may leave a partial copy, which is no reason not to copy.
    let _ = to.record_staging(&path).await;
    let mut staging = Staging { sandbox: Some(to.clone()), path };
    let done = work(staging.path.clone()).await;
    if done.is_ok() {
        // Without a file at the path, a remaining record is harmless.
        let _ = to.forget_staging(&staging.path).await;
    } else {
        remove_staging(to, &staging.path).await;
    }
    staging.sandbox = None;
    done.map_err(|mut error| {
        // Nothing but a replaced container removes what has this name.
        if error.code == Code::NotFound && error.message.contains(&staging.path) {
            return lost(to_path).with_source(error);
        }
        error.message = error.message.replace(&staging.path, to_path);
        error
    })
}

/// A staging path. Dropping it before the rename removes what is there.
struct Staging<T: Sandbox> {
    sandbox: Option<T>,
    path: String,
}

impl<T: Sandbox> Drop for Staging<T> {
    fn drop(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            let path = std::mem::take(&mut self.path);
            run_detached(async move {
                remove_staging(&sandbox, &path).await;
            });
        }
    }
}

/// Removes the staging path if it exists. Errors are ignored.
async fn remove_staging<T: Sandbox>(sandbox: &T, path: &str) {
    let gone = sandbox.remove(anywhere(path)).await;
    // A sandbox that does not answer removes it at its next start.
    if !matches!(gone, Err(Error { code: Code::Unavailable, .. })) {
        let _ = sandbox.forget_staging(path).await;
    }
}

/// Returns whether a path is a directory. Follows the named link; links inside a tree stay links.
async fn is_directory<S: Sandbox>(sandbox: &S, path: &str) -> Result<bool> {
    match sandbox.stat(anywhere(path)).await?.kind {
        Kind::Directory => Ok(true),
        Kind::Link(_) => match sandbox.list(anywhere(path)).await {
            Ok(_) => Ok(true),
            Err(error) if error.code == Code::NotADirectory => Ok(false),
            Err(error) => Err(error),
        },
        Kind::File => Ok(false),
        Kind::Other => {
            let message = format!("{path} cannot be copied: it is not a file, directory or symbolic link");
            Err(Error::new(Code::Unsupported, message))
        }
    }
}
