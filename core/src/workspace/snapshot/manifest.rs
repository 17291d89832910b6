//! What is recorded of a snapshot, and how a file with a snapshot begins.

use serde::{Deserialize, Serialize};

use super::frames::damaged_error;
use super::{Contents, SnapshotId};
use crate::error::{Code, Error, Result};

/// The version of the format.
pub(super) const FORMAT: u32 = 1;
/// The magic number of the skippable frame that holds the manifest in a file.
const MANIFEST: u32 = 0x184D_2A5B;
/// The size of a skippable frame's header.
const HEAD: usize = 8;
/// The maximum size of a manifest.
const MAX_MANIFEST: usize = 64 << 10;

/// A snapshot: what is recorded of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The version of the archive's format.
    pub(super) format: u32,
    /// Its ID.
    pub id: SnapshotId,
    /// The workspace that it was taken of.
    pub workspace: String,
    /// The session that it was taken in.
    pub session: String,
    /// The archived directory.
    pub dir: String,
    /// When it was taken, in milliseconds since 1970.
    pub created: u64,
    /// When it expires, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// The snapshot that the archived sandbox was created from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SnapshotId>,
    /// What it contains.
    pub contents: Contents,
    /// How many bytes it takes in the store: the size of the archive, or of the files of a layer that no earlier one has.
    pub archive_bytes: u64,
    /// The SHA-256 of the archive, in hexadecimal digits. A layer has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The part of a manifest that every version has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Snapshot {
    /// Returns whether it has expired at a time, in milliseconds since 1970.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Returns the beginning of a file with this snapshot. The archive follows.
    pub(super) fn to_header(&self) -> Result<Vec<u8>> {
        let manifest = serde_json::to_vec(self).map_err(|error| {
            Error::new(Code::Internal, "the manifest cannot be written").with_source(error)
        })?;
        let mut header = Vec::with_capacity(HEAD + manifest.len());
        header.extend(MANIFEST.to_le_bytes());
        header.extend(u32::try_from(manifest.len()).unwrap_or(u32::MAX).to_le_bytes());
        header.extend(manifest);
        Ok(header)
    }

    /// Reads the beginning of a file. Returns the snapshot and the length of the beginning once it has arrived.
    pub(super) fn from_header(bytes: &[u8]) -> Result<Option<(Snapshot, usize)>> {
        let Some(head) = bytes.get(..HEAD) else { return Ok(None) };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = usize::try_from(word(4)).unwrap_or(usize::MAX);
        if word(0) != MANIFEST || length > MAX_MANIFEST {
            return Err(damaged_error(
                "the file does not begin with a manifest, so koze has not exported it",
            ));
        }
        let Some(manifest) = bytes.get(HEAD..HEAD + length) else { return Ok(None) };
        let wrong = |error| damaged_error("its manifest is not valid").with_source(error);
        let Format { format } = serde_json::from_slice(manifest).map_err(wrong)?;
        if format != FORMAT {
            let message = format!(
                "the snapshot has the format {format}, and this koze reads the format {FORMAT}: use the koze that exported it, or \
                 a newer one"
            );
            return Err(Error::new(Code::Unsupported, message));
        }
        Ok(Some((serde_json::from_slice(manifest).map_err(wrong)?, HEAD + length)))
    }
}
