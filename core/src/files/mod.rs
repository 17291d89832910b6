//! Files of a sandbox as the routes `files` and `koze cp` transfer them: with conditions and ranges, and written completely or
//! not at all.
//!
//! | module | job |
//! |---|---|
//! | [`http`] | what a request means for a file, and the head of its response |
//! | `download` | the bytes of a file, in pieces |
//! | `upload` | a new file, assembled at a staging path |

mod download;
pub mod http;
mod upload;

pub use self::download::download;
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
    let found = session.find(&SandboxName::new(name)?).await?;
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
    path::check(path)?;
    let mut at = path.to_owned();
    for _ in 0..LINKS {
        let stat = match sandbox.stat(anywhere(&at)).await {
            Ok(stat) => stat,
            Err(error) if error.code == Code::NotFound => return Ok((at, None)),
            Err(error) => return Err(error),
        };
        match &stat.kind {
            Kind::File => return Ok((at, Some(stat))),
            Kind::Link(target) if target.starts_with('/') => at.clone_from(target),
            Kind::Link(target) => {
                let parent = at.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
                at = format!("{parent}/{target}");
            }
            Kind::Directory => {
                let message = format!("`{path}` is a directory, not a file: name a file in it");
                return Err(Error::new(Code::IsDirectory, message));
            }
            Kind::Other => {
                let message = format!("`{path}` is not a regular file");
                return Err(Error::new(Code::Unsupported, message));
            }
        }
    }
    Err(Error::new(Code::InvalidInput, format!("`{path}` has too many levels of symbolic links")))
}
