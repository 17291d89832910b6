//! Files of a sandbox as the routes `files` and `koze cp` transfer them: with conditions and ranges, and written completely or
//! not at all.
//!
//! | module | job |
//! |---|---|
//! | [`http`] | what a request means for a file, and the head of its response |
//! | `download` | the bytes of a file, in pieces |
//! | `tree` | a directory as an archive, and one that is created from an archive |
//! | `upload` | a new file, assembled at a staging path |

mod download;
pub mod http;
mod tree;
mod upload;

pub use self::download::download;
pub use self::tree::{Existing, assemble, extract};
pub use self::upload::Upload;

use crate::error::{Code, Error, Result};
use crate::id::SandboxName;
use crate::path::{self, anywhere};
use crate::provider::Provider;
use crate::sandbox::{Kind, Sandbox, Stat};
use crate::session::Session;

/// The maximum number of symbolic links to follow, as on Linux.
const LINKS: usize = 40;

/// Returns a sandbox of a session that exists.
///
/// # Errors
/// [`Code::NotFound`] if there is no such sandbox, and the errors of the provider.
pub async fn existing<P: Provider>(session: &Session<P>, name: &str) -> Result<P::Sandbox> {
    let found = session.find_sandbox(&SandboxName::new(name)?).await?;
    let none = || Error::new(Code::NotFound, format!("there is no sandbox `{name}` in this session"));
    Ok(found.ok_or_else(none)?.sandbox)
}

/// Returns the error for a file that does not exist.
pub fn missing(path: &str) -> Error {
    Error::new(Code::NotFound, format!("`{path}` does not exist"))
}

/// Resolves a path to a file. Returns its path without a final link, and its metadata if it exists.
///
/// # Errors
/// [`Code::IsDirectory`] for a directory, [`Code::Unsupported`] for a pipe, socket or device, and the errors of the sandbox.
pub async fn resolve<S: Sandbox>(sandbox: &S, path: &str) -> Result<(String, Option<Stat>)> {
    let found = follow_links(sandbox, path).await?;
    match found.1.as_ref().map(|stat| &stat.kind) {
        Some(Kind::Directory) => {
            let message = format!("`{path}` is a directory, not a file: name a file in it");
            Err(Error::new(Code::IsDirectory, message))
        }
        Some(Kind::Other) => {
            let message = format!("`{path}` is not a regular file");
            Err(Error::new(Code::Unsupported, message))
        }
        _ => Ok(found),
    }
}

/// Follows a final link of a path. Returns the path without it, and the metadata of what is there, which is not a link.
async fn follow_links<S: Sandbox>(sandbox: &S, path: &str) -> Result<(String, Option<Stat>)> {
    path::check(path)?;
    let mut at = path.to_owned();
    for _ in 0..LINKS {
        let stat = match sandbox.stat(anywhere(&at)).await {
            Ok(stat) => stat,
            Err(error) if error.code == Code::NotFound => return Ok((at, None)),
            Err(error) => return Err(error),
        };
        match &stat.kind {
            Kind::Link(target) if target.starts_with('/') => at.clone_from(target),
            Kind::Link(target) => {
                let parent = at.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
                at = format!("{parent}/{target}");
            }
            _ => return Ok((at, Some(stat))),
        }
    }
    Err(Error::new(Code::InvalidInput, format!("`{path}` has too many levels of symbolic links")))
}
