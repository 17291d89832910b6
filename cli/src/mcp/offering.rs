//! What a project offers, and how its files looked when they were read. A server runs for long, and what was shut in a
//! file must not be open for it.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use koze_core::Images;
use serde::{Deserialize, Serialize};

/// What a project offers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Offering {
    /// The images.
    pub images: Images,
    /// The toolset, if it is not the project's default.
    pub toolset: Option<String>,
    /// The sandbox files, and what `koze build` writes when there are others.
    files: Vec<(Stamp, PathBuf)>,
}

/// How a file looks from outside; nothing where it is gone.
type Stamp = Option<(SystemTime, u64)>;

impl Offering {
    /// What these files say, which look so now.
    pub(crate) fn new(
        images: Images,
        toolset: Option<String>,
        files: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        let stamped = |file: PathBuf| (stamp_of(&file), file);
        Offering { images, toolset, files: files.into_iter().map(stamped).collect() }
    }

    /// Whether the files still look as they did.
    pub(crate) fn holds(&self) -> bool {
        self.files.iter().all(|(stamp, file)| stamp_of(file) == *stamp)
    }

    /// Takes the files for read as they are.
    pub(crate) fn look_again(&mut self) {
        self.files.iter_mut().for_each(|(stamp, file)| *stamp = stamp_of(file));
    }
}

/// How a file looks.
fn stamp_of(file: &Path) -> Stamp {
    let about = std::fs::metadata(file).ok()?;
    Some((about.modified().ok()?, about.len()))
}
