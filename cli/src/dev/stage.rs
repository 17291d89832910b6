//! The directory of a local run, `.wrangler/koze-dev`: what wrangler reads in place of the project's configuration.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::config::{self, Local};
use super::secrets;
use crate::generate;
use crate::paths;

/// The directory, beside the project's configuration.
const DIR: &str = ".wrangler/koze-dev";
/// The configuration in it.
const CONFIG: &str = "wrangler.json";
/// The Worker entry in it.
const ENTRY: &str = "worker.mjs";

/// The directory, for this run alone. It goes with this, or when it is cleared.
#[derive(Debug)]
pub struct Stage {
    dir: PathBuf,
    _ours: File,
}

/// Why there is no directory.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// Another run has it.
    #[error("another `koze dev --local` is running in this project: stop it first")]
    Taken,
    /// The operating system refused.
    #[error("`{DIR}` cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// What is written to it.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    /// The project's configuration.
    pub config: &'a Value,
    /// The environment that runs.
    pub environment: Option<&'a str>,
    /// The classes of sandboxes.
    pub classes: &'a [&'a str],
    /// What the Worker finds beside its own variables.
    pub vars: &'a [(&'a str, Value)],
}

impl Stage {
    /// Takes the directory beside a configuration, with nothing in it but the secrets of development.
    ///
    /// # Errors
    /// Where another run has it, or it cannot be made.
    pub fn new(beside: &Path) -> Result<Self, Failed> {
        let dir = beside.join(DIR);
        fs::create_dir_all(dir.parent().unwrap_or(beside))?;
        // Outside of it: what is in it goes.
        let ours = File::create(dir.with_extension("lock"))?;
        match ours.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Failed::Taken),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        // The tokens in it are for this user alone.
        DirBuilder::new().mode(0o700).create(&dir)?;
        // wrangler looks for secrets beside the configuration it reads.
        for name in secrets::files(beside) {
            symlink(Path::new("../..").join(&name), dir.join(&name))?;
        }
        Ok(Stage { dir, _ours: ours })
    }

    /// Writes it, or writes it anew: wrangler reads its configuration again when it is written, and builds.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&self, content: &Content) -> io::Result<()> {
        let Content { config, environment, classes, vars } = *content;
        let main = config::main(config, environment).unwrap_or(generate::ENTRY);
        let main = paths::dotted(&self.dir.join("../..").join(main), &self.dir);
        let config = config::local(config, &Local { up: "../..", main: ENTRY, vars });
        // No version control is to take it for a part of the project.
        self.put(".gitignore", "*\n")?;
        self.put("local.mjs", koze_templates::LOCAL)?;
        self.put("calls.mjs", koze_templates::CALLS)?;
        self.put("waiting.mjs", koze_templates::WAITING)?;
        self.put(ENTRY, &generate::local(&main, classes))?;
        self.put(CONFIG, &format!("{config:#}\n"))
    }

    /// The configuration.
    pub fn config(&self) -> PathBuf {
        self.dir.join(CONFIG)
    }

    /// Takes it away.
    pub fn clear(&self) {
        let _ = fs::remove_dir_all(&self.dir);
    }

    fn put(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.dir.join(name);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(path)?.write_all(text.as_bytes())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.clear();
    }
}
