//! Files and trees from one sandbox to another, of whatever provider each is. What arrives is put together beside its
//! place and moved there whole, so half a transfer is never seen.

pub(crate) mod pieces;

use crate::detach::detach;
use crate::error::{Code, Error, Result};
use crate::path::{absolute, anywhere};
use crate::sandbox::{Kind, Sandbox, Stat};

/// Copies a file, or with `recursive` a directory with all that is in it, to a path of another sandbox, and returns the
/// bytes of the files. Relative paths start at `/home/user`. Modes, symbolic links and empty directories are kept; a
/// file that is there is replaced, a directory never.
///
/// Dropped before it is done, it leaves nothing behind; nor does it where the program is killed, once a sandbox of this
/// machine has been started again.
///
/// # Errors
/// [`Code::IsDirectory`] for a directory without `recursive`, or in the place of a file; [`Code::AlreadyExists`] for a
/// directory in the place of another; [`Code::TooLarge`] where the other sandbox has no room; and those of both.
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
    let to_path = to_path.trim_end_matches('/');
    let Some((parent, _)) = to_path.rsplit_once('/') else {
        return Err(Error::new(Code::IsDirectory, "`/` is there already: name a path in it"));
    };
    let is_directory = is_directory(from, from_path).await?;
    if is_directory && !recursive {
        let message =
            format!("`{from_path}` is a directory: say `recursive` to copy it with all that is in it");
        return Err(Error::new(Code::IsDirectory, message));
    }
    if let Ok(Stat { kind: Kind::Directory, .. }) = to.stat(anywhere(to_path)).await {
        let (code, what) = if is_directory {
            (Code::AlreadyExists, "is there already")
        } else {
            (Code::IsDirectory, "is a directory")
        };
        return Err(Error::new(code, format!("`{to_path}` {what}: name another path")));
    }
    let path = format!("{parent}/.koze-transfer-{}", uuid::Uuid::new_v4().simple());
    // Where that fails, a kill in the middle leaves something: no reason to copy nothing.
    let _ = to.note_passing(&path).await;
    let mut beside = Beside { sandbox: Some(to.clone()), path };
    let copied = async {
        let bytes = from.copy_to(anywhere(from_path), to, anywhere(&beside.path)).await?;
        to.rename(anywhere(&beside.path), anywhere(to_path)).await?;
        // Were it noted for ever, nothing would be there to be taken away.
        let _ = to.forget_passing(&beside.path).await;
        Ok(bytes)
    };
    let copied: Result<u64> = copied.await;
    if copied.is_err() {
        take_away(to, &beside.path).await;
    }
    beside.sandbox = None;
    copied.map_err(|error| Error { message: error.message.replace(&beside.path, to_path), ..error })
}

/// What is put together. Dropped before it is moved to its place, it goes away.
struct Beside<T: Sandbox> {
    sandbox: Option<T>,
    path: String,
}

impl<T: Sandbox> Drop for Beside<T> {
    fn drop(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            let path = std::mem::take(&mut self.path);
            detach(async move {
                take_away(&sandbox, &path).await;
            });
        }
    }
}

/// Takes away what is left, if anything is: it helps nobody.
async fn take_away<T: Sandbox>(sandbox: &T, path: &str) {
    let gone = sandbox.remove(anywhere(path)).await;
    // A sandbox that does not answer is to do it when it starts.
    if !matches!(gone, Err(Error { code: Code::Unavailable, .. })) {
        let _ = sandbox.forget_passing(path).await;
    }
}

/// Whether a path leads to a directory. The link that is named is followed; links in a tree stay links.
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
            let message = format!("`{path}` is no file, directory or link, and cannot be copied");
            Err(Error::new(Code::Unsupported, message))
        }
    }
}
