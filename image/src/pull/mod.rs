//! Pulls images from registries.

mod credentials;
mod registry;

use std::collections::HashSet;
use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use futures_util::StreamExt as _;
use oci_client::Reference;
use tokio::time::timeout;

use crate::add::Adding;
use crate::digest::Digest;
use crate::errors::{Error, Result, at};
use crate::manifest::{Descriptor, Document, Manifest, choose};
use crate::progress::{Event, Progress};
use crate::store::{Image, Store};

use self::registry::Registry;

/// How many layers are downloaded at a time.
const DOWNLOADS: usize = 3;
/// How many layers are unpacked at a time. Creating files is most of the work, and one disk does not do more.
const UNPACKERS: usize = 2;
/// How often downloads check whether unpacking failed.
const INTERVAL: Duration = Duration::from_millis(200);
/// How deep indexes may be nested.
const INDEXES: usize = 4;

/// A downloaded layer.
struct Downloaded {
    diff_id: Digest,
    digest: Digest,
    file: File,
}

impl Store {
    /// Pulls an image from its registry. Layers that the store has are not downloaded. It blocks, and must not be called in
    /// an asynchronous program's own threads.
    ///
    /// # Errors
    /// Returns an error if the registry does not have the image or refuses it, or the image is damaged, exceeds the limits or is
    /// for another platform. Layers that are complete by then stay in the store.
    pub fn pull(&self, reference: &Reference, progress: &Progress) -> Result<Image> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::Io("cannot start a pull".to_owned(), error))?;
        let registry = Registry::new(reference)?;
        let manifest = runtime.block_on(find_manifest(&registry, self))?;
        let config = runtime.block_on(registry.blob(&manifest.config))?;
        let adding = Adding::new(self, config, progress)?;
        let missing = self.missing_layers(&manifest, &adding)?;
        let is_stopped = AtomicBool::new(false);
        let stop = |error: Error| {
            is_stopped.store(true, Ordering::Relaxed);
            error
        };
        let (sender, receiver) = channel();
        let receiver = Mutex::new(receiver);
        thread::scope(|scope| {
            let unpackers =
                [(); UNPACKERS].map(|()| scope.spawn(|| unpack_all(&receiver, &adding, &is_stopped)));
            let downloads = async {
                let download = async |(diff_id, layer): (Digest, Descriptor)| {
                    let file = self.download(&registry, &diff_id, &layer, progress).await?;
                    Ok(Downloaded { diff_id, digest: layer.digest, file })
                };
                let mut downloads =
                    futures_util::stream::iter(missing).map(download).buffer_unordered(DOWNLOADS);
                // It stops within an interval if a layer cannot be unpacked.
                while !is_stopped.load(Ordering::Relaxed) {
                    match timeout(INTERVAL, downloads.next()).await {
                        // The receiver outlives this.
                        Ok(Some(downloaded)) => drop(sender.send(downloaded?)),
                        Ok(None) => break,
                        Err(_) => {}
                    }
                }
                Ok(())
            };
            let downloaded = runtime.block_on(downloads).map_err(stop);
            drop(sender);
            let unpacked =
                unpackers.map(|unpacker| unpacker.join().unwrap_or_else(|panic| resume_unwind(panic)));
            downloaded.and(unpacked.into_iter().collect::<Result<()>>())
        })?;
        adding.finish(std::slice::from_ref(reference))
    }

    /// Returns the layers to download, each only once.
    fn missing_layers(&self, manifest: &Manifest, adding: &Adding) -> Result<Vec<(Digest, Descriptor)>> {
        let mut seen = HashSet::new();
        let mut missing = Vec::new();
        let mut bytes = 0_u64;
        for (diff_id, layer) in adding.diff_ids(manifest.layers.len())?.iter().zip(&manifest.layers) {
            if seen.insert(diff_id) && !adding.has_layer(diff_id)? {
                bytes = bytes.saturating_add(layer.size);
                missing.push((diff_id.clone(), layer.clone()));
            }
        }
        // Compressed archives are hardly ever larger than what they contain.
        if bytes > self.limits.unpacked_bytes {
            return Err(Error::refused(format!(
                "the layers of the image have {bytes} bytes; at most {} are allowed",
                self.limits.unpacked_bytes
            )));
        }
        Ok(missing)
    }

    /// Downloads a layer into a file without a name.
    async fn download(
        &self,
        registry: &Registry,
        diff_id: &Digest,
        layer: &Descriptor,
        progress: &Progress<'_>,
    ) -> Result<File> {
        let name = diff_id.short();
        progress(Event::Started(name, layer.size));
        let staging = self.staging();
        let mut file = tempfile::tempfile_in(&staging).map_err(at("create a file in", &staging))?;
        registry.download(layer, &mut file, &|bytes| progress(Event::Read(name, bytes))).await?;
        file.seek(SeekFrom::Start(0)).map_err(at("read", &staging))?;
        Ok(file)
    }
}

/// Finds the manifest of the image for this machine.
async fn find_manifest(registry: &Registry, store: &Store) -> Result<Manifest> {
    let mut text = registry.manifest(None, store.limits.manifest_bytes).await?;
    for _ in 0..INDEXES {
        match Document::parse(&text, &store.limits)? {
            Document::Manifest(manifest) => return Ok(manifest),
            Document::Index(manifests) => {
                let chosen = choose(&manifests)?;
                text = registry.manifest(Some(chosen), store.limits.manifest_bytes).await?;
            }
        }
    }
    Err(Error::refused("the indexes of the image are nested too deeply"))
}

/// Unpacks layers until there are no more, or one fails.
fn unpack_all(layers: &Mutex<Receiver<Downloaded>>, adding: &Adding, is_stopped: &AtomicBool) -> Result<()> {
    loop {
        let next = layers.lock().expect("the lock is not held while a layer is unpacked").recv();
        let Ok(Downloaded { diff_id, digest, file }) = next else { return Ok(()) };
        if is_stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        let unpacked = adding.unpack_layer(&diff_id, Some(&digest), file);
        if unpacked.is_err() {
            is_stopped.store(true, Ordering::Relaxed);
            return unpacked;
        }
    }
}
