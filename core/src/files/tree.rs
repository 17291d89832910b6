//! A directory that is created from an archive, completely or not at all.

use super::follow;
use crate::archive::{Bytes, foreign};
use crate::error::{Code, Error, Result};
use crate::path::anywhere;
use crate::sandbox::{Kind, Place, Sandbox};
use crate::transfer::staged;

/// Creates a directory from an archive of any program, which is not trusted. Returns whether there was none before.
///
/// # Errors
/// Those of [`foreign`] and [`assemble`].
pub async fn extract<S: Sandbox>(sandbox: &S, path: &str, tar: Bytes<'_>) -> Result<bool> {
    let create = |staging: String| async move {
        let place = Place { root: &staging, path: &staging };
        sandbox.extract(place, foreign(tar)).await.map(drop)
    };
    assemble(sandbox, path, create).await
}

/// Creates a directory, or replaces an empty one: `create` fills a new directory at a staging path, which is then renamed. A final
/// symbolic link is followed inside the sandbox, and missing parent directories are created. Returns whether the directory is new.
///
/// If the future is dropped, nothing is left behind.
///
/// # Errors
/// [`Code::AlreadyExists`] for a directory that is not empty, [`Code::NotADirectory`] for a file, and the errors of `create` and of the
/// sandbox.
pub async fn assemble<S: Sandbox, C: Future<Output = Result<()>>>(
    sandbox: &S,
    path: &str,
    create: impl FnOnce(String) -> C,
) -> Result<bool> {
    let (target, before) = follow(sandbox, path).await?;
    match before.as_ref().map(|before| &before.kind) {
        Some(Kind::Directory) if !sandbox.list(anywhere(&target)).await?.is_empty() => {
            let message = format!("`{path}` is not empty: name a directory that is empty or does not exist");
            return Err(Error::new(Code::AlreadyExists, message));
        }
        None | Some(Kind::Directory) => {}
        Some(_) => {
            let message = format!("`{path}` is not a directory: name one that is empty or does not exist");
            return Err(Error::new(Code::NotADirectory, message));
        }
    }
    let target = target.trim_end_matches('/');
    let created = staged(sandbox, target, |staging| async move {
        sandbox.make_dir(anywhere(&staging)).await?;
        create(staging).await
    });
    created.await?;
    Ok(before.is_none())
}
