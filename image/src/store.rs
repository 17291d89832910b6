//! A store: its directories, and its images by reference.
//!
//! ```text
//! layers/<16 digits>        the unpacked files of a layer
//! diffs/<16 digits>         the layer's record: its whole diff ID, and what it takes
//! images/<64 digits>        the configuration of an image, byte for byte; the modification time is the last use
//! references/<64 digits>    a reference and the image it names; the name is the digest of the reference
//! steps/<64 digits>         the image that a step of a build led to; the name is the step's key
//! staging/                  what is not complete
//! lock                      shared while something is added, exclusive while something is removed
//! ```

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use oci_client::Reference;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::{Config, ConfigFile};
use crate::digest::Digest;
use crate::errors::{Error, Result, at};
use crate::limits::Limits;

/// The maximum size of a record, in bytes.
const RECORD: u64 = 64 << 10;

/// An image in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The digest of its configuration.
    pub id: String,
    /// The names of its layers below [`Store::layers`], lowest first. Layers that add nothing to the image are left out.
    pub layers: Vec<String>,
    /// What its programs expect.
    pub config: Config,
}

/// A store of unpacked images, shared by all projects of a user.
#[derive(Debug)]
pub struct Store {
    pub(crate) directory: PathBuf,
    layers: PathBuf,
    pub(crate) limits: Limits,
}

/// The record of a layer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LayerRecord {
    pub(crate) diff_id: Digest,
    /// The size of its files on disk, in bytes.
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    /// Whether it hides all layers below.
    pub(crate) opaque: bool,
}

/// The record of a reference.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReferenceRecord {
    pub(crate) reference: String,
    pub(crate) image: Digest,
}

impl Store {
    /// Opens a store, and creates it if it does not exist. Only this user may access it.
    ///
    /// # Errors
    /// Returns an error if the directory belongs to another user, or others may write to it.
    pub fn open(directory: &Path) -> Result<Self> {
        let create = |path: &Path, mode| {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(mode).create(path).map_err(at("create", path))
        };
        create(directory, 0o700)?;
        check_owner(directory)?;
        // Mounts need an absolute path.
        let directory = directory.canonicalize().map_err(at("open", directory))?;
        for name in ["layers", "diffs", "images", "references", "steps", "staging"] {
            create(&directory.join(name), 0o755)?;
        }
        let store = Self { layers: directory.join("layers"), directory, limits: Limits::default() };
        store.remove_leftovers()?;
        Ok(store)
    }

    /// Replaces the limits of the images that are added.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the directory of the store that a user's projects share: `KOZE_IMAGES`, or `koze/images` below
    /// `XDG_CACHE_HOME` or else `~/.cache`.
    pub fn default_directory() -> PathBuf {
        let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(directory) = env::var_os("KOZE_IMAGES").filter(|directory| !directory.is_empty()) {
            return PathBuf::from(directory);
        }
        let cache = absolute("XDG_CACHE_HOME");
        let cache = cache.or_else(|| Some(absolute("HOME")?.join(".cache")));
        cache.unwrap_or_else(|| PathBuf::from(".cache")).join("koze/images")
    }

    /// Returns the directory that contains one directory for each layer.
    pub fn layers(&self) -> &Path {
        &self.layers
    }

    /// Returns the image of a reference and marks it as used, or `None` if the store does not have all of it.
    pub fn find(&self, reference: &Reference) -> Result<Option<Image>> {
        let Some(record) = self.reference(reference)? else { return Ok(None) };
        let image = self.image(&record.image)?;
        if image.is_some() {
            self.mark_used(&record.image);
        }
        Ok(image)
    }

    /// Returns the image with this ID, or `None` if the store does not have all of it. This does not count as a use.
    ///
    /// # Errors
    /// Returns an error if it is not an ID.
    pub fn find_id(&self, id: &str) -> Result<Option<Image>> {
        self.image(&Digest::parse(id)?)
    }

    /// Returns whether the store has all of an image. This does not count as a use.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub fn has(&self, reference: &Reference) -> Result<bool> {
        let Some(record) = self.reference(reference)? else { return Ok(false) };
        Ok(self.image(&record.image)?.is_some())
    }

    /// Returns an image by its ID.
    pub(crate) fn image(&self, id: &Digest) -> Result<Option<Image>> {
        let Some(file) = self.config_file(id)? else { return Ok(None) };
        let mut layers: Vec<&str> = Vec::new();
        for diff_id in file.diff_ids() {
            let Some(layer) = self.layer(diff_id)? else { return Ok(None) };
            if layer.opaque {
                layers.clear();
            }
            // An overlay refuses to have a layer twice. The upper one shows everything of the lower one.
            layers.retain(|name| *name != diff_id.short());
            if layer.entries > 0 {
                layers.push(diff_id.short());
            }
        }
        let layers = layers.into_iter().map(str::to_owned).collect();
        Ok(Some(Image { id: id.as_str().to_owned(), layers, config: file.config() }))
    }

    /// Returns the configuration file of an image.
    pub(crate) fn config_file(&self, id: &Digest) -> Result<Option<ConfigFile>> {
        let path = self.config_path(id);
        let Some(text) = read_bounded(&path, self.limits.config_bytes)? else { return Ok(None) };
        ConfigFile::parse(&text, &self.limits).map(Some)
    }

    /// Returns the path of the configuration of an image.
    pub(crate) fn config_path(&self, id: &Digest) -> PathBuf {
        self.directory.join("images").join(id.digits())
    }

    /// Returns the record of a complete layer.
    ///
    /// # Errors
    /// Returns an error if another layer has the same directory: only the first digits of its diff ID name it.
    pub(crate) fn layer(&self, diff_id: &Digest) -> Result<Option<LayerRecord>> {
        let directory = self.layers.join(diff_id.short());
        if !directory.try_exists().map_err(at("read", &directory))? {
            return Ok(None);
        }
        let Some(record) = read_record::<LayerRecord>(&self.layer_record_path(diff_id))? else {
            return Ok(None);
        };
        if record.diff_id != *diff_id {
            return Err(Error::refused(format!(
                "the layers {diff_id} and {} begin with the same digits, so the store cannot hold both: remove the images of the latter",
                record.diff_id
            )));
        }
        Ok(Some(record))
    }

    /// Returns the path of the record of a layer.
    pub(crate) fn layer_record_path(&self, diff_id: &Digest) -> PathBuf {
        self.directory.join("diffs").join(diff_id.short())
    }

    /// Returns the record of a reference.
    pub(crate) fn reference(&self, reference: &Reference) -> Result<Option<ReferenceRecord>> {
        read_record(&self.reference_path(reference))
    }

    /// Returns the path of the record of a reference.
    pub(crate) fn reference_path(&self, reference: &Reference) -> PathBuf {
        let name = Digest::compute(reference.whole().as_bytes());
        self.directory.join("references").join(name.digits())
    }

    /// Writes a file of the store, so that it is complete or not there at all.
    pub(crate) fn write_file(&self, path: &Path, content: &[u8]) -> Result<()> {
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(self.staging())?;
            file.write_all(content)?;
            file.as_file().sync_data()?;
            file.persist(path)?;
            sync_parent(path)
        };
        write().map_err(at("write", path))
    }

    /// Returns the directory of everything that is not complete.
    pub(crate) fn staging(&self) -> PathBuf {
        self.directory.join("staging")
    }

    /// Sets the time of the last use. That it fails matters only to what is removed first.
    fn mark_used(&self, id: &Digest) {
        let now = || Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now(), last_modification: now() };
        let _ = rustix::fs::utimensat(CWD, self.config_path(id), &times, AtFlags::SYMLINK_NOFOLLOW);
    }
}

/// Reads a record, which is `None` if the file does not exist.
pub(crate) fn read_record<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let Some(text) = read_bounded(path, RECORD)? else { return Ok(None) };
    let invalid = |error: serde_json::Error| at("read", path)(io::Error::other(error));
    serde_json::from_slice(&text).map(Some).map_err(invalid)
}

/// Makes the names in the directory of a file durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(path))?.sync_all()
}

/// Reads a file of limited size, which is `None` if it does not exist.
fn read_bounded(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(at("read", path))?,
    };
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content).map_err(at("read", path))?;
    if content.len() as u64 > limit {
        return Err(at("read", path)(io::Error::other("the file is too large; remove it")));
    }
    Ok(Some(content))
}

/// Checks that nobody else controls the directory: koze would create files where they lead it.
fn check_owner(directory: &Path) -> Result<()> {
    let metadata = fs::metadata(directory).map_err(at("open", directory))?;
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        let text = "it belongs to another user, or others may write to it: set `KOZE_IMAGES` to a directory of your own";
        return Err(at("use", directory)(io::Error::new(io::ErrorKind::PermissionDenied, text)));
    }
    Ok(())
}
