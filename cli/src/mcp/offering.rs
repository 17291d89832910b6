//! The profiles that a project offers, and a stamp of the files that declare them. A server runs for long, so it must
//! notice when a file restricts what it offers.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use koze_core::Profiles;

/// The profiles of a project and the files they depend on.
#[derive(Debug, Clone)]
pub(crate) struct Offering {
    /// The profiles.
    pub(crate) profiles: Profiles,
    /// The toolset, if it is not the project's default.
    pub(crate) toolset: Option<String>,
    /// The sandbox files, and the generated file that `koze build` rewrites when sandboxes are added or removed.
    files: Vec<(Stamp, PathBuf)>,
}

/// The modification time and size of a file; `None` if it does not exist.
type Stamp = Option<(SystemTime, u64)>;

impl Offering {
    /// Creates an offering and stamps its files.
    pub(crate) fn new(
        profiles: Profiles,
        toolset: Option<String>,
        files: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        let stamped = |file: PathBuf| (stamp_of(&file), file);
        Offering { profiles, toolset, files: files.into_iter().map(stamped).collect() }
    }

    /// Returns whether the files are unchanged.
    pub(crate) fn holds(&self) -> bool {
        self.files.iter().all(|(stamp, file)| stamp_of(file) == *stamp)
    }

    /// Accepts the files as they are now.
    pub(crate) fn look_again(&mut self) {
        self.files.iter_mut().for_each(|(stamp, file)| *stamp = stamp_of(file));
    }
}

/// Returns the stamp of a file.
fn stamp_of(file: &Path) -> Stamp {
    let about = std::fs::metadata(file).ok()?;
    Some((about.modified().ok()?, about.len()))
}
