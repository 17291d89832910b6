//! The layer that a sandbox is on top of. The sandbox's directory records the layer, and the layer records the sandbox.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Layer, Layers, layer_error, read_record};
use crate::errors::state_failed;
use crate::host::layout::{self, Own};
use crate::launch::{Overlay, USER};
use koze_core::error::{Code, Error, Result};

/// The name of the record in the directory of a sandbox.
const RECORD: &str = "base";
/// Where the sandbox's own directories are, below its directory.
const FILES: &str = "files";
/// The name of overlayfs's work directory there. It must be on the same mount as the sandbox's own directory, and the sandbox's user must
/// be able to access it.
const WORK: &str = "overlay-work";

/// The layer that a sandbox is on top of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    /// The name of the layer.
    pub(crate) layer: String,
    /// The path of the mounted directory below the sandbox's directory, and its path in the sandbox.
    pub(super) own: String,
    target: String,
}

impl Base {
    /// Reads the record of a sandbox.
    pub(crate) fn of(sandbox: &Path) -> Result<Option<Self>> {
        read_record(&sandbox.join(RECORD))
    }

    /// Prepares the overlay of a sandbox that is about to start.
    pub(crate) fn overlay(&self, layers: &Layers, sandbox: &Path, owner: Option<u32>) -> Result<Overlay> {
        let layer = layers.get(&self.layer)?;
        layout::renew_work_directory(&sandbox.join(FILES).join(WORK), owner).map_err(state_failed)?;
        Ok(Overlay {
            target: self.target.clone(),
            lower: layer.files().as_os_str().as_bytes().to_vec(),
            layers: Vec::new(),
            layers_owner: USER,
            own: sandbox.join(FILES).as_os_str().as_bytes().to_vec(),
            upper: Path::new(&self.own)
                .strip_prefix(FILES)
                .map_err(|_| damaged_error())?
                .to_string_lossy()
                .into_owned(),
            work: WORK.to_owned(),
        })
    }
}

fn damaged_error() -> Error {
    Error::new(Code::Internal, "the record of a sandbox's snapshot is not valid")
}

impl Layers {
    /// Puts a new sandbox, whose directory exists, on top of a layer. Returns whether the layer was taken of this directory.
    /// `is_listed` returns whether a store still lists the layer.
    pub(crate) fn begin(
        &self,
        layer: &Layer,
        own: &Own,
        sandbox: &Path,
        is_listed: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        if !layer.checked().map_err(layer_error)??.is_of(own) {
            return Ok(false);
        }
        let _one = self.lock().map_err(layer_error)?;
        if !is_listed()? {
            return Err(Error::new(Code::NotFound, "the snapshot was removed in the meantime"));
        }
        let begin = || {
            let name = sandbox.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            File::create(layer.directory.join("users").join(name))?;
            // Of the two modes, overlayfs shows that of the sandbox's own directory.
            let mode = fs::metadata(layer.files())?.mode() & 0o7777;
            fs::set_permissions(sandbox.join(own.path), fs::Permissions::from_mode(mode))?;
            let base = Base { layer: layer.name.clone(), own: own.path.into(), target: own.target.into() };
            super::write_atomically(&sandbox.join(RECORD), &serde_json::to_vec(&base)?)
        };
        begin().map_err(layer_error)?;
        Ok(true)
    }

    /// Removes the entry of a destroyed sandbox, and its layer if nothing else uses it.
    pub(crate) fn end(
        &self,
        base: &Base,
        sandbox: &Path,
        is_listed: impl FnOnce() -> Result<bool>,
    ) -> Result<()> {
        let (Some(layer), Some(name)) = (self.find(&base.layer), sandbox.file_name()) else { return Ok(()) };
        let _ = fs::remove_file(layer.directory.join("users").join(name));
        if is_listed()? { Ok(()) } else { self.release(&base.layer).map_err(layer_error) }
    }
}

#[cfg(test)]
mod tests {
    use crate::host::layout;

    #[test]
    fn the_own_directory_of_a_path() {
        let own = |path: &str| layout::find_own(path).map(|own| (own.path, own.target, own.below));
        assert_eq!(own("/workspace"), Some(("files/workspace", "workspace", String::new())));
        assert_eq!(own("/home/user/a/b"), Some(("files/home", "home/user", "a/b".to_owned())));
        assert_eq!(
            own("/mnt/user-data/workspace"),
            Some(("files/user-data", "mnt/user-data", "workspace".into()))
        );
        for other in ["/workspaces", "/", "/etc", "workspace", "/workspace/../etc", "/workspace//a", "/home"]
        {
            assert_eq!(own(other), None, "{other}");
        }
    }
}
