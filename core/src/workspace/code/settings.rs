//! The settings of contexts, in files of their sandbox: with them, a context can be restarted, also after it has ended.

use serde::{Deserialize, Serialize};

use super::context::ContextId;
use crate::error::{Code, Error, Result};
use crate::path::anywhere;
use crate::sandbox::{Sandbox, Write};
use crate::script::read;
use crate::workspace::Language;

/// The directory of the files.
const DIRECTORY: &str = "/tmp/koze-contexts";
/// The longest file in bytes. A Worker may read those of all contexts of a sandbox at once, and its code can change them.
const MAX_LENGTH: usize = 256 << 10;

/// What an interpreter is started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) language: Language,
    /// An absolute path.
    pub(super) working_dir: String,
    /// Variables in addition to the sandbox's own.
    pub(super) env: Vec<(String, String)>,
}

impl Settings {
    /// Encodes the settings for their file.
    ///
    /// # Errors
    /// [`Code::TooLarge`] if they are longer than a file may be.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let text = serde_json::to_vec(self).map_err(|error| {
            Error::new(Code::Internal, "the settings of the context cannot be stored").with_source(error)
        })?;
        if text.len() > MAX_LENGTH {
            let message = format!(
                "the directory and the variables of a context have {} bytes as JSON, but may have {MAX_LENGTH}: write long texts \
                 to files",
                text.len()
            );
            return Err(Error::new(Code::TooLarge, message));
        }
        Ok(text)
    }
}

/// Stores the encoded settings of a context.
pub(super) async fn store_settings<S: Sandbox>(sandbox: &S, id: ContextId, text: Vec<u8>) -> Result<()> {
    sandbox.write(anywhere(&file_path(id)), text, Write::Replace).await.map(drop)
}

/// Returns the settings of a context. `None` if its file is gone, or if code of the sandbox has put something else there.
pub(super) async fn load_settings<S: Sandbox>(sandbox: &S, id: ContextId) -> Result<Option<Settings>> {
    match sandbox.read(anywhere(&file_path(id)), 0, MAX_LENGTH as u64).await {
        Ok(piece) => Ok(read(&piece.bytes).ok()),
        Err(error) if error.code == Code::Unavailable => Err(error),
        Err(_) => Ok(None),
    }
}

/// Removes the settings of a context. Returns whether there were any.
pub(super) async fn remove_settings<S: Sandbox>(sandbox: &S, id: ContextId) -> Result<bool> {
    match sandbox.remove(anywhere(&file_path(id))).await {
        Ok(()) => Ok(true),
        Err(error) if error.code == Code::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn file_path(id: ContextId) -> String {
    format!("{DIRECTORY}/{id}.json")
}
