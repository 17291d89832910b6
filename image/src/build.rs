//! Builds images in the store, step by step: each step adds at most one layer to an image, or changes its configuration.
//!
//! A step has a key, the digest of everything that its result depends on. The store remembers which image a step led to, so the same
//! step is not done twice. This keeps nothing in the store: the images and layers of steps are removed with all others that no
//! reference needs.

mod layer;
mod tree;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use oci_client::Reference;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::add::Staged;
use crate::config::ConfigFile;
use crate::digest::Digest;
use crate::errors::{Error, Result, at};
use crate::manifest;
use crate::store::{Image, Store, read_record};
use crate::unpack::Budget;

pub use self::layer::NewLayer;
pub use self::tree::{Entry, EntryKind, Tree};

/// The key of a step: a digest of everything that its result depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepKey(Digest);

impl StepKey {
    /// Returns the key of a step that depends on these parts, in this order.
    pub fn new<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            // With their lengths, so that no two lists of parts are the same bytes.
            hasher.update((part.as_ref().len() as u64).to_le_bytes());
            hasher.update(part);
        }
        StepKey(Digest::finish(hasher))
    }

    /// Returns the digits of the digest, as a part of another key.
    pub fn as_str(&self) -> &str {
        self.0.digits()
    }
}

/// The record of a step.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StepRecord {
    pub(crate) image: Digest,
}

/// A build of images. Nothing is removed from the store meanwhile.
#[derive(Debug)]
pub struct Building<'a> {
    store: &'a Store,
    budget: Budget,
    _lock: File,
}

/// A directory in the store for the time of a build.
pub struct Scratch(Staged);

impl Scratch {
    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0.0
    }
}

impl Store {
    /// Begins to build.
    pub fn begin_build(&self) -> Result<Building<'_>> {
        let lock = self.lock_shared()?;
        Ok(Building { store: self, budget: Budget::new(&self.limits), _lock: lock })
    }

    /// Returns the path of the record of a step.
    fn step_path(&self, key: &StepKey) -> PathBuf {
        self.directory.join("steps").join(key.as_str())
    }
}

impl Building<'_> {
    /// Returns the image that a step led to, if the store has all of it.
    pub fn find_step(&self, key: &StepKey) -> Result<Option<Image>> {
        match read_record::<StepRecord>(&self.store.step_path(key))? {
            Some(StepRecord { image }) => self.store.image(&image),
            None => Ok(None),
        }
    }

    /// Remembers the image that a step led to.
    pub fn record_step(&self, key: &StepKey, image: &Image) -> Result<()> {
        let record = StepRecord { image: Digest::parse(&image.id)? };
        let path = self.store.step_path(key);
        let text = serde_json::to_vec(&record).map_err(|error| at("write", &path)(error.into()))?;
        self.store.write_file(&path, &text)
    }

    /// Gives an image a name. The image that had it loses it.
    pub fn name(&self, reference: &Reference, image: &Image) -> Result<()> {
        self.store.write_reference(reference, &Digest::parse(&image.id)?)
    }

    /// Returns the `config` section of an image's configuration: what its programs expect.
    pub fn settings(&self, image: &Image) -> Result<Map<String, Value>> {
        let mut file = self.read_config(image)?;
        Ok(match file.get_mut("config").map(Value::take) {
            Some(Value::Object(settings)) => settings,
            _ => Map::new(),
        })
    }

    /// Begins a layer.
    pub fn new_layer(&self) -> Result<NewLayer> {
        NewLayer::new(&self.store.staging())
    }

    /// Creates a directory for the time of a build. It is removed when it is dropped, or else when the store is opened again.
    pub fn create_scratch(&self) -> Result<Scratch> {
        Staged::create(self.store).map(Scratch)
    }

    /// Opens the files of an image. `None` is an image without files.
    pub fn open_tree(&self, image: Option<&Image>) -> Result<Tree> {
        let names = image.map(|image| image.layers.as_slice()).unwrap_or_default();
        let layers: Vec<_> = names.iter().map(|name| self.store.layers().join(name)).collect();
        Tree::open(&layers).map_err(at("open", self.store.layers()))
    }

    /// Adds an image to the store: its parent with another layer, if that is not empty, and with these settings. `None` as the parent
    /// is an image without files.
    ///
    /// # Errors
    /// Returns an error if the image then exceeds the limits.
    pub fn commit(
        &self,
        parent: Option<&Image>,
        layer: Option<NewLayer>,
        settings: Map<String, Value>,
        created_by: &str,
    ) -> Result<Image> {
        let diff_id = match layer.map(NewLayer::finish).transpose()? {
            Some(Some((archive, diff_id))) => {
                if self.store.layer(&diff_id)?.is_none() {
                    self.store.unpack_layer(&diff_id, None, archive, &self.budget)?;
                }
                Some(diff_id)
            }
            _ => None,
        };
        let mut file = match parent {
            Some(parent) => self.read_config(parent)?,
            None => new_config(),
        };
        let mut diff_ids = file["rootfs"]["diff_ids"].as_array().cloned().unwrap_or_default();
        let mut history = file["history"].as_array().cloned().unwrap_or_default();
        history.push(json!({ "created_by": created_by, "empty_layer": diff_id.is_none() }));
        diff_ids.extend(diff_id.map(|diff_id| json!(diff_id)));
        // The time would make the same build another image.
        if let Some(file) = file.as_object_mut() {
            file.remove("created");
        }
        file["rootfs"] = json!({ "type": "layers", "diff_ids": diff_ids });
        file["history"] = Value::Array(history);
        file["config"] = Value::Object(settings);
        self.write_config(&file)
    }

    fn read_config(&self, image: &Image) -> Result<Value> {
        let path = self.store.config_path(&Digest::parse(&image.id)?);
        let text = fs::read(&path).map_err(at("read", &path))?;
        serde_json::from_slice(&text)
            .map_err(|error| Error::refused(format!("the configuration of the image is invalid: {error}")))
    }

    fn write_config(&self, file: &Value) -> Result<Image> {
        let text = file.to_string().into_bytes();
        // The store must be able to read it.
        ConfigFile::parse(&text, &self.store.limits)?;
        let id = Digest::compute(&text);
        self.store.write_file(&self.store.config_path(&id), &text)?;
        let missing = || Error::Missing("a layer of the image was removed meanwhile".to_owned());
        self.store.image(&id)?.ok_or_else(missing)
    }
}

/// Returns the configuration of an image without layers, for this machine.
fn new_config() -> Value {
    json!({ "architecture": manifest::this_architecture(), "os": "linux", "config": {}, "rootfs": { "diff_ids": [] } })
}
