//! What the server offers: the tools, with the images of the project as its files have them at the moment. A server runs
//! for long, and what was shut in a file must not be open for it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use koze::Images;
use koze::tool::{agent, mcp};
use rmcp::model::Tool;

use crate::args;
use crate::commands::here;
use crate::commands::project::Offered;

/// What a project offers, and how its files looked when they were read.
#[derive(Debug)]
pub(super) struct Offer {
    args: args::Here,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    /// The sandbox files, and what `koze build` writes when there are others.
    files: Vec<(PathBuf, Stamp)>,
    images: Images,
    tools: Arc<[Tool]>,
}

/// How a file looks from outside; nothing where it is gone.
type Stamp = Option<(SystemTime, u64)>;

impl Offer {
    /// Reads the project; what is wrong is shown.
    pub(super) fn new(args: args::Here) -> Result<Self, ExitCode> {
        let now = Mutex::new(read(&args)?);
        Ok(Offer { args, now })
    }

    /// The images.
    pub(super) fn images(&self) -> Images {
        self.with(|now| now.images.clone())
    }

    /// The tools.
    pub(super) fn tools(&self) -> Arc<[Tool]> {
        self.with(|now| Arc::clone(&now.tools))
    }

    fn with<T>(&self, give: impl FnOnce(&Now) -> T) -> T {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.files.iter().any(|(file, stamp)| stamp_of(file) != *stamp) {
            match read(&self.args) {
                Ok(new) => *now = new,
                // What is wrong was shown. It is read again when it has changed again.
                Err(_) => now.files.iter_mut().for_each(|(file, stamp)| *stamp = stamp_of(file)),
            }
        }
        give(&now)
    }
}

fn read(args: &args::Here) -> Result<Now, ExitCode> {
    let Offered { images, files, generated } = here::offered(args)?;
    let files = files.into_iter().chain([generated]).map(|file| (stamp_of(&file), file));
    let files = files.map(|(stamp, file)| (file, stamp)).collect();
    let tools = mcp::tools(agent::definitions(&images)).into();
    Ok(Now { files, images, tools })
}

fn stamp_of(file: &Path) -> Stamp {
    let about = std::fs::metadata(file).ok()?;
    Some((about.modified().ok()?, about.len()))
}
