//! Adds layers and images to a store.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use oci_client::Reference;
use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;

use crate::config::ConfigFile;
use crate::digest::Digest;
use crate::errors::{Error, Result, at};
use crate::manifest;
use crate::progress::{Event, Progress};
use crate::remove::remove_tree;
use crate::store::{Image, LayerRecord, ReferenceRecord, Store, sync_parent};
use crate::unpack::{Budget, unpack};

/// An image that is being added. Nothing is removed from the store meanwhile.
pub(crate) struct Adding<'a> {
    store: &'a Store,
    progress: &'a Progress<'a>,
    budget: Budget,
    config_text: Vec<u8>,
    config: ConfigFile,
    id: Digest,
    _lock: File,
}

/// The archive of a layer.
pub(crate) struct Blob<R> {
    pub(crate) reader: R,
    pub(crate) size: u64,
    /// The digest of the archive as it is, if it is known.
    pub(crate) digest: Option<Digest>,
}

impl<'a> Adding<'a> {
    /// Begins with the configuration of an image, which must be for this machine.
    pub(crate) fn new(store: &'a Store, config_text: Vec<u8>, progress: &'a Progress<'a>) -> Result<Self> {
        let config = ConfigFile::parse(&config_text, &store.limits)?;
        config.check_platform()?;
        let lock = store.lock_shared()?;
        let id = Digest::compute(&config_text);
        Ok(Self { store, progress, budget: Budget::new(&store.limits), config_text, config, id, _lock: lock })
    }

    /// Returns the digests of the uncompressed layers, lowest first. There must be as many as the image has archives.
    pub(crate) fn diff_ids(&self, archives: usize) -> Result<&[Digest]> {
        let diff_ids = self.config.diff_ids();
        if diff_ids.len() != archives {
            return Err(Error::refused(format!(
                "the configuration of the image names {} layers, and its manifest {archives}",
                diff_ids.len()
            )));
        }
        Ok(diff_ids)
    }

    /// Returns whether the store has a layer, and reports that.
    pub(crate) fn has_layer(&self, diff_id: &Digest) -> Result<bool> {
        let is_there = self.store.layer(diff_id)?.is_some();
        if is_there {
            (self.progress)(Event::Present(diff_id.short()));
        }
        Ok(is_there)
    }

    /// Unpacks a layer into the store, unless it is there.
    pub(crate) fn add_layer(&self, diff_id: &Digest, blob: Blob<impl Read>) -> Result<()> {
        let name = diff_id.short();
        (self.progress)(Event::Started(name, blob.size));
        let reader = Reported { inner: blob.reader, name, progress: self.progress };
        self.unpack_layer(diff_id, blob.digest.as_ref(), reader)
    }

    /// Does the same for an archive whose download was reported already.
    pub(crate) fn unpack_layer(
        &self,
        diff_id: &Digest,
        digest: Option<&Digest>,
        blob: impl Read,
    ) -> Result<()> {
        self.store.unpack_layer(diff_id, digest, blob, &self.budget)?;
        (self.progress)(Event::Finished(diff_id.short()));
        Ok(())
    }

    /// Names the image, whose layers are all there.
    pub(crate) fn finish(self, references: &[Reference]) -> Result<Image> {
        let store = self.store;
        store.write_file(&store.config_path(&self.id), &self.config_text)?;
        let image = store.image(&self.id)?;
        let image =
            image.ok_or_else(|| Error::Missing("a layer of the image was removed meanwhile".to_owned()))?;
        for reference in references {
            store.write_reference(reference, &self.id)?;
        }
        Ok(image)
    }
}

impl Store {
    /// Unpacks the archive of a layer into the store.
    pub(crate) fn unpack_layer(
        &self,
        diff_id: &Digest,
        digest: Option<&Digest>,
        blob: impl Read,
        budget: &Budget,
    ) -> Result<()> {
        let staged = Staged::create(self)?;
        let files = staged.0.join("files");
        fs::create_dir(&files).map_err(at("create", &files))?;
        let record = unpack(blob, digest, diff_id, &files, budget)?;
        let sync = || rustix::fs::syncfs(File::open(&files)?).map_err(io::Error::from);
        sync().map_err(at("write", &files))?;
        self.publish_layer(&files, &record)
    }

    /// Moves an unpacked layer to its place. Another process may have been faster.
    fn publish_layer(&self, files: &Path, record: &LayerRecord) -> Result<()> {
        let diffs = File::open(self.directory.join("diffs")).map_err(at("open", &self.directory))?;
        // Two layers whose digits begin alike must not get each other's record.
        rustix::fs::flock(&diffs, FlockOperation::LockExclusive)
            .map_err(|error| at("lock", &self.directory)(error.into()))?;
        if self.layer(&record.diff_id)?.is_some() {
            return Ok(());
        }
        let text = serde_json::to_vec(record).expect("a record is JSON");
        self.write_file(&self.layer_record_path(&record.diff_id), &text)?;
        let place = self.layers().join(record.diff_id.short());
        let publish = || match rustix::fs::renameat_with(CWD, files, CWD, &place, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => Err(io::Error::other("it is there without its record; remove it")),
            Err(error) => Err(error.into()),
            Ok(()) => sync_parent(&place),
        };
        publish().map_err(at("create", &place))
    }

    /// Gives an image a name. The image that had it loses it.
    pub(crate) fn write_reference(&self, reference: &Reference, image: &Digest) -> Result<()> {
        let record = ReferenceRecord { reference: reference.whole(), image: image.clone() };
        let text = serde_json::to_vec(&record).expect("a record is JSON");
        self.write_file(&self.reference_path(reference), &text)
    }
}

impl ConfigFile {
    /// Checks that programs of the image run on this machine. An image that names no platform may.
    fn check_platform(&self) -> Result<()> {
        let (os, architecture) = self.platform();
        if (os.is_empty() && architecture.is_empty()) || manifest::is_supported(os, architecture) {
            return Ok(());
        }
        Err(manifest::foreign(&format!("{os}/{architecture}")))
    }
}

/// A directory for what is not complete, which is removed with its content.
pub(crate) struct Staged(pub(crate) PathBuf);

impl Staged {
    pub(crate) fn create(store: &Store) -> Result<Self> {
        let staging = store.staging();
        let directory = tempfile::Builder::new().prefix("new-").tempdir_in(&staging);
        // Removed by `remove_tree`, because a plain user cannot list every directory of an image.
        Ok(Self(directory.map_err(at("create a directory in", &staging))?.keep()))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // What is left is removed when the store is opened again.
        let _ = remove_tree(&self.0);
    }
}

/// Reports what is read.
struct Reported<'a, R> {
    inner: R,
    name: &'a str,
    progress: &'a Progress<'a>,
}

impl<R: Read> Read for Reported<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        (self.progress)(Event::Read(self.name, count as u64));
        Ok(count)
    }
}
