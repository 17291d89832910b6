//! The staging directory of a local run, `.wrangler/koze-dev`, which wrangler reads instead of the project's directory.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::config::{self, Local};
use super::secrets;
use crate::generate;
use crate::paths;

/// The directory, relative to that of the project's configuration.
const DIR: &str = ".wrangler/koze-dev";
/// The configuration file in it.
const CONFIG: &str = "wrangler.json";
/// The entry point in it.
const ENTRY: &str = "worker.mjs";

/// The staging directory, locked by this run. It is deleted on drop or by [`Stage::clear`].
#[derive(Debug)]
pub struct Stage {
    dir: PathBuf,
    _ours: File,
}

/// An error from creating the directory.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// Another run uses it.
    #[error("another `koze dev --local` is running in this project: stop it first")]
    Taken,
    /// An error of the operating system.
    #[error("`{DIR}` cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// The content of the directory.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    /// The project's configuration.
    pub config: &'a Value,
    /// The environment to run.
    pub environment: Option<&'a str>,
    /// The classes of the sandboxes.
    pub classes: &'a [&'a str],
    /// Whether the project serves the tools `script`.
    pub scripts: bool,
    /// Whether scripts have a browser.
    pub browser: bool,
    /// Variables to add to the Worker's own.
    pub vars: &'a [(&'a str, Value)],
}

impl Stage {
    /// Creates and locks the directory next to a configuration, with only the development secrets in it.
    ///
    /// # Errors
    /// Returns an error if another run uses it or it cannot be created.
    pub fn new(beside: &Path) -> Result<Self, Failed> {
        let dir = beside.join(DIR);
        fs::create_dir_all(dir.parent().unwrap_or(beside))?;
        // Outside the directory, whose content is deleted.
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
        // The directory contains tokens, so only this user may read it.
        DirBuilder::new().mode(0o700).create(&dir)?;
        // wrangler looks for secrets next to its configuration.
        for name in secrets::files(beside) {
            symlink(Path::new("../..").join(&name), dir.join(&name))?;
        }
        Ok(Stage { dir, _ours: ours })
    }

    /// Writes the directory. wrangler reloads its configuration and rebuilds when the file changes.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn write(&self, content: &Content) -> io::Result<()> {
        let Content { config, environment, classes, scripts, browser, vars } = *content;
        let main = config::main(config, environment).unwrap_or(generate::ENTRY);
        let main = paths::dotted(&self.dir.join("../..").join(main), &self.dir);
        let config = config::local(config, &Local { up: "../..", main: ENTRY, vars });
        // Keep the directory out of version control.
        self.write_file(".gitignore", "*\n")?;
        self.write_file("local.mjs", koze_templates::LOCAL)?;
        self.write_file("calls.mjs", koze_templates::CALLS)?;
        self.write_file("waiting.mjs", koze_templates::WAITING)?;
        self.write_file(ENTRY, &generate::local(&main, classes, scripts, browser))?;
        self.write_file(CONFIG, &format!("{config:#}\n"))
    }

    /// Returns the path of the configuration.
    pub fn config(&self) -> PathBuf {
        self.dir.join(CONFIG)
    }

    /// Deletes the directory.
    pub fn clear(&self) {
        let _ = fs::remove_dir_all(&self.dir);
    }

    fn write_file(&self, name: &str, text: &str) -> io::Result<()> {
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
