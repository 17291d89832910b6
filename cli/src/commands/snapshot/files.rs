//! Snapshots as files: written whole or not at all, and verified before they are added.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use futures_util::{TryStreamExt as _, stream};
use koze_core::workspace::{SnapshotId, WorkspaceSnapshots};
use koze_core::{Code, Error, Result};
use tempfile::NamedTempFile;

/// How much of a file is read at once, in bytes.
const PIECE: usize = 1 << 20;

/// Writes a snapshot to a file. Returns a line that says so.
pub(super) async fn export(snapshots: &WorkspaceSnapshots, id: &SnapshotId, path: &Path) -> Result<String> {
    let unwritten = |error: std::io::Error| {
        let message = format!("`{}` cannot be written: {error}", path.display());
        Error::new(Code::Unavailable, message).with_source(error)
    };
    let mut pieces = snapshots.export(id).await?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Next to the file, so that it can be renamed.
    let mut file = NamedTempFile::new_in(dir).map_err(unwritten)?;
    let mut size = 0;
    while let Some(bytes) = pieces.try_next().await? {
        file.write_all(&bytes).map_err(unwritten)?;
        size += bytes.len();
    }
    file.as_file().sync_all().map_err(unwritten)?;
    file.persist(path).map_err(|error| unwritten(error.error))?;
    Ok(format!("wrote {}, {size} bytes\n", path.display()))
}

/// Adds the snapshot of a file. Returns its ID as a line.
pub(super) async fn import(snapshots: &WorkspaceSnapshots, path: &Path) -> Result<String> {
    let unread = |path: &Path, error: std::io::Error| {
        let message = format!("`{}` cannot be read: {error}", path.display());
        Error::new(Code::InvalidInput, message).with_source(error)
    };
    let file = File::open(path).map_err(|error| unread(path, error))?;
    let pieces = stream::try_unfold((file, path.to_owned()), move |(mut file, path)| async move {
        let mut piece = vec![0; PIECE];
        let size = file.read(&mut piece).map_err(|error| unread(&path, error))?;
        piece.truncate(size);
        Ok((size > 0).then_some((piece, (file, path))))
    });
    Ok(format!("{}\n", snapshots.import(Box::pin(pieces)).await?.id))
}
