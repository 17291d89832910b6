//! Lists and removes images.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use oci_client::Reference;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::add::Staged;
use crate::build::StepRecord;
use crate::digest::Digest;
use crate::errors::{Error, Result, at};
use crate::store::{Image, LayerRecord, ReferenceRecord, Store, read_record};

/// An image of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The whole reference.
    pub reference: String,
    /// The digest of the configuration.
    pub id: String,
    /// The number of layers.
    pub layers: usize,
    /// What its layers take on the disk, in bytes. Images may share layers.
    pub bytes: u64,
    /// The last use.
    pub used: SystemTime,
    /// Whether the store has all of its layers.
    pub is_complete: bool,
}

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// The references.
    pub references: Vec<String>,
    /// The number of layers.
    pub layers: usize,
    /// What the layers took on the disk, in bytes.
    pub bytes: u64,
    /// The layers that no image has, but a sandbox uses. They are removed by the next `prune`.
    pub held: usize,
}

/// Keeps the layers of an image from being removed until it is dropped.
#[derive(Debug)]
pub struct Hold(#[expect(dead_code, reason = "the open files have the locks")] Vec<File>);

impl Store {
    /// Returns all images, sorted by reference.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let mut listed = Vec::new();
        for (_, ReferenceRecord { reference, image }) in self.references()? {
            let Some(config) = self.config_file(&image)? else { continue };
            let diff_ids: HashSet<_> = config.diff_ids().iter().collect();
            let mut bytes = 0;
            let mut missing = 0;
            for diff_id in &diff_ids {
                match self.layer(diff_id)? {
                    Some(layer) => bytes += layer.bytes,
                    None => missing += 1,
                }
            }
            let path = self.config_path(&image);
            let used =
                fs::metadata(&path).and_then(|metadata| metadata.modified()).map_err(at("read", &path))?;
            let id = image.as_str().to_owned();
            let layers = config.diff_ids().len();
            listed.push(Listed { reference, id, layers, bytes, used, is_complete: missing == 0 });
        }
        listed.sort_by(|a, b| a.reference.cmp(&b.reference));
        Ok(listed)
    }

    /// Removes a reference, and everything that no other one needs. Returns `None` if the store does not have it.
    ///
    /// # Errors
    /// Returns [`Error::Busy`] if another process adds an image for longer than a few seconds.
    pub fn remove(&self, reference: &Reference) -> Result<Option<Removed>> {
        let _lock = self.lock_exclusive()?;
        if self.reference(reference)?.is_none() {
            return Ok(None);
        }
        let path = self.reference_path(reference);
        fs::remove_file(&path).map_err(at("remove", &path))?;
        let references = vec![reference.whole()];
        self.collect(references).map(Some)
    }

    /// Removes images that were not used for some time, then those that were not used for the longest time until the layers
    /// take at most `max_bytes`, and everything that no image needs.
    ///
    /// # Errors
    /// Returns [`Error::Busy`] if another process adds an image for longer than a few seconds.
    pub fn prune(&self, max_bytes: Option<u64>, unused_for: Option<Duration>) -> Result<Removed> {
        let _lock = self.lock_exclusive()?;
        let mut images = self.list()?;
        images.sort_by_key(|image| image.used);
        let mut removed = Vec::new();
        let now = SystemTime::now();
        let paths: BTreeMap<_, _> =
            self.references()?.into_iter().map(|(path, record)| (record.reference, path)).collect();
        for image in images {
            let age = now.duration_since(image.used).unwrap_or_default();
            let is_old = unused_for.is_some_and(|limit| age >= limit);
            let is_too_much = || max_bytes.map_or(Ok(false), |limit| Ok(self.needed_bytes()? > limit));
            if is_old || is_too_much()? {
                let path = &paths[&image.reference];
                fs::remove_file(path).map_err(at("remove", path))?;
                removed.push(image.reference);
            }
        }
        self.collect(removed)
    }

    /// Keeps the layers of an image from being removed while a sandbox uses them.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if a layer was removed meanwhile.
    pub fn hold(&self, image: &Image) -> Result<Hold> {
        let hold = |name: &String| {
            let path = self.layers().join(name);
            let hold = || -> io::Result<File> {
                let directory = File::open(&path)?;
                rustix::fs::flock(&directory, FlockOperation::LockShared)?;
                // It may have been moved away before the lock.
                if fs::metadata(&path)?.ino() != directory.metadata()?.ino() {
                    return Err(io::ErrorKind::NotFound.into());
                }
                Ok(directory)
            };
            hold().map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    Error::Missing(format!("the layer {name} is no longer in the store"))
                }
                _ => at("open", &path)(error),
            })
        };
        image.layers.iter().map(hold).collect::<Result<_>>().map(Hold)
    }

    /// Returns the records of all references, with their files.
    fn references(&self) -> Result<Vec<(PathBuf, ReferenceRecord)>> {
        let mut found = Vec::new();
        for path in list_directory(&self.directory.join("references"))? {
            found.extend(read_record(&path)?.map(|record| (path, record)));
        }
        Ok(found)
    }

    /// Returns the records of all steps of builds, with their files.
    fn steps(&self) -> Result<Vec<(PathBuf, StepRecord)>> {
        let mut found = Vec::new();
        for path in list_directory(&self.directory.join("steps"))? {
            found.extend(read_record(&path)?.map(|record| (path, record)));
        }
        Ok(found)
    }

    /// Returns the IDs of the images that have a reference, and the diff IDs of their layers.
    fn needed(&self) -> Result<(BTreeSet<Digest>, BTreeSet<Digest>)> {
        let images: BTreeSet<_> = self.references()?.into_iter().map(|(_, record)| record.image).collect();
        let mut layers = BTreeSet::new();
        for image in &images {
            let config = self.config_file(image)?;
            layers.extend(config.iter().flat_map(|config| config.diff_ids().iter().cloned()));
        }
        Ok((images, layers))
    }

    /// Returns what the layers of all images take, in bytes.
    fn needed_bytes(&self) -> Result<u64> {
        let (_, layers) = self.needed()?;
        let bytes = |diff_id: &Digest| Ok(self.layer(diff_id)?.map_or(0, |layer| layer.bytes));
        layers.iter().map(bytes).sum()
    }

    /// Removes the images without references, and the layers without images.
    fn collect(&self, references: Vec<String>) -> Result<Removed> {
        let mut removed = Removed { references, ..Removed::default() };
        let (images, layers) = self.needed()?;
        let steps = self.steps()?;
        // Of the images of steps, those that take no space beyond their configuration, so that builds of named images continue.
        let mut kept: Vec<&Digest> = images.iter().collect();
        for (_, step) in &steps {
            let config = self.config_file(&step.image)?;
            if config.is_some_and(|config| config.diff_ids().iter().all(|diff_id| layers.contains(diff_id))) {
                kept.push(&step.image);
            }
        }
        let images: HashSet<_> = kept.into_iter().map(Digest::digits).collect();
        for path in list_directory(&self.directory.join("images"))? {
            if !has_name(&path, &images) {
                fs::remove_file(&path).map_err(at("remove", &path))?;
            }
        }
        for (path, step) in &steps {
            if !images.contains(step.image.digits()) {
                fs::remove_file(path).map_err(at("remove", path))?;
            }
        }
        let layers: HashSet<_> = layers.iter().map(Digest::short).collect();
        for path in list_directory(self.layers())? {
            if has_name(&path, &layers) {
                continue;
            }
            let directory = File::open(&path).map_err(at("open", &path))?;
            match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => {
                    removed.held += 1;
                    continue;
                }
                locked => locked.map_err(|error| at("lock", &path)(error.into()))?,
            }
            let record = self.directory.join("diffs").join(path.file_name().unwrap_or_default());
            removed.bytes += read_record::<LayerRecord>(&record)?.map_or(0, |layer| layer.bytes);
            removed.layers += 1;
            // Moved away first, so that a layer is never there in part.
            let staged = Staged::create(self)?;
            fs::rename(&path, staged.0.join("files")).map_err(at("remove", &path))?;
        }
        for path in list_directory(&self.directory.join("diffs"))? {
            let name = path.file_name().unwrap_or_default();
            if !self.layers().join(name).exists() {
                fs::remove_file(&path).map_err(at("remove", &path))?;
            }
        }
        Ok(removed)
    }
}

fn has_name(path: &Path, names: &HashSet<&str>) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(name))
}

/// Returns the paths in a directory, sorted.
fn list_directory(directory: &Path) -> Result<Vec<PathBuf>> {
    let list = || fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
    let mut paths = list().map_err(at("read", directory))?;
    paths.sort();
    Ok(paths)
}
