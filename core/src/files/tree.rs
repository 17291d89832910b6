//! A directory that is created from an archive, completely or not at all, or that an archive is merged into.

use std::collections::BTreeMap;

use super::follow_links;
use crate::archive::{Bytes, foreign};
use crate::error::{Code, Error, Result};
use crate::path::anywhere;
use crate::sandbox::{Kind, Place, Sandbox};
use crate::transfer::{create_staged, with_staging};

/// What to do with a directory that has content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Existing {
    /// Refuse it.
    Refuse,
    /// Keep its content. Files of the archive replace files with the same path.
    Merge,
}

/// Creates a directory from an archive of any program, which is not trusted. Returns whether there was none before.
///
/// # Errors
/// Those of [`foreign`] and [`assemble`].
pub async fn extract<S: Sandbox>(
    sandbox: &S,
    path: &str,
    existing: Existing,
    tar: Bytes<'_>,
) -> Result<bool> {
    let create = |staging: String| async move {
        let place = Place { root: &staging, path: &staging };
        sandbox.extract(place, foreign(tar)).await.map(drop)
    };
    assemble(sandbox, path, existing, create).await
}

/// Creates a directory: `create` fills a new directory at a staging path, which is then renamed. An existing directory is kept,
/// because it may be a mount point or have a parent that cannot be written: its staging path is inside it, and what was created is
/// moved from there. A final symbolic link is followed inside the sandbox, and missing parent directories are created. Returns
/// whether the directory is new.
///
/// If the future is dropped before `create` has ended, nothing is left behind.
///
/// # Errors
/// [`Code::AlreadyExists`] for a directory that is not empty, unless it is merged; [`Code::NotADirectory`] for a file, also in place of
/// a directory of the archive; [`Code::IsDirectory`] for a directory in place of a file; and the errors of `create` and of the sandbox.
pub async fn assemble<S: Sandbox, C: Future<Output = Result<()>>>(
    sandbox: &S,
    path: &str,
    existing: Existing,
    create: impl FnOnce(String) -> C,
) -> Result<bool> {
    let (target, before) = follow_links(sandbox, path).await?;
    let target = target.trim_end_matches('/');
    match before.map(|before| before.kind) {
        None => {
            let created = create_staged(sandbox, target, |staging| async move {
                sandbox.make_dir(anywhere(&staging)).await?;
                create(staging).await
            });
            created.await.map(|()| true)
        }
        Some(Kind::Directory) => {
            if existing == Existing::Refuse && !sandbox.list(anywhere(target)).await?.is_empty() {
                let message = format!(
                    "`{path}` is not empty: name a directory that is empty or does not exist, or merge with `merge=true`"
                );
                return Err(Error::new(Code::AlreadyExists, message));
            }
            let created = with_staging(sandbox, target, target, |staging| async move {
                sandbox.make_dir(anywhere(&staging)).await?;
                create(staging.clone()).await?;
                move_content(sandbox, &staging, target).await?;
                sandbox.remove(anywhere(&staging)).await
            });
            created.await.map(|()| false)
        }
        Some(_) => {
            let message = format!("`{path}` is not a directory: name one that is empty or does not exist");
            Err(Error::new(Code::NotADirectory, message))
        }
    }
}

/// Moves the content of a directory into another one. Nothing is moved if a directory and something else have the same path.
async fn move_content<S: Sandbox>(sandbox: &S, from: &str, to: &str) -> Result<()> {
    let mut moves = Vec::new();
    let mut directories = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = directories.pop() {
        let present = sandbox.list(anywhere(&to)).await?;
        let present: BTreeMap<_, _> =
            present.into_iter().map(|entry| (entry.name, entry.stat.kind)).collect();
        for entry in sandbox.list(anywhere(&from)).await? {
            let (from, to) = (format!("{from}/{}", entry.name), format!("{to}/{}", entry.name));
            let is_directory = entry.stat.kind == Kind::Directory;
            match present.get(&entry.name) {
                Some(Kind::Directory) if is_directory => directories.push((from, to)),
                Some(Kind::Directory) => {
                    let message = format!("`{to}` is a directory, and the archive has a file of this name");
                    return Err(Error::new(Code::IsDirectory, message));
                }
                Some(_) if is_directory => {
                    let message = format!("`{to}` is not a directory, and the archive has one of this name");
                    return Err(Error::new(Code::NotADirectory, message));
                }
                _ => {
                    // A directory gets a new parent only if its user can write to it.
                    let is_closed = is_directory && entry.stat.mode & OWNER_WRITES == 0;
                    moves.push((from, to, is_closed.then_some(entry.stat.mode)));
                }
            }
        }
    }
    for (from, to, closed) in moves {
        if let Some(mode) = closed {
            sandbox.set_mode(anywhere(&from), mode | OWNER_WRITES).await?;
        }
        sandbox.rename(anywhere(&from), anywhere(&to)).await?;
        if let Some(mode) = closed {
            sandbox.set_mode(anywhere(&to), mode).await?;
        }
    }
    Ok(())
}

/// The permission bit with which the owner of a directory changes it.
const OWNER_WRITES: u32 = 0o200;
