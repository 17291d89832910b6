//! Imports images from files: OCI layouts, as directories or tar archives, and archives of `docker save`.

mod archive;
mod layout;

use std::path::Path;

use oci_client::Reference;
use serde::Deserialize;

use crate::add::{Adding, Blob};
use crate::digest::Digest;
use crate::errors::{Error, Result};
use crate::manifest::{Descriptor, Document, choose};
use crate::progress::Progress;
use crate::store::{Image, Store};

use self::layout::{Content, Layout};

/// The annotation of a layout with the whole name of an image, as containerd and Docker write it.
const FULL_NAME: &str = "io.containerd.image.name";
/// The annotation of a layout with the name or only the tag of an image.
const NAME: &str = "org.opencontainers.image.ref.name";
/// How deep indexes may be nested.
const INDEXES: usize = 4;

/// An image in `manifest.json` of `docker save`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

impl Store {
    /// Imports all images of a file: an OCI layout, as a directory or a tar archive, or an archive of `docker save`. A name
    /// replaces the names in the file, if it contains only one image.
    ///
    /// # Errors
    /// Returns an error if the file is damaged, an image in it exceeds the limits or is for another platform, or an image has no
    /// name.
    pub fn import(
        &self,
        file: &Path,
        name: Option<&Reference>,
        progress: &Progress,
    ) -> Result<Vec<(Reference, Image)>> {
        let layout = Layout::open(file, &self.limits)?;
        let mut imported = Vec::new();
        if let Some(text) = layout.read("manifest.json", self.limits.manifest_bytes)? {
            let images: Vec<Saved> = serde_json::from_slice(&text).map_err(|error| {
                Error::refused(format!("`manifest.json` of the archive is invalid: {error}"))
            })?;
            for image in &images {
                let tags = image.repo_tags.iter().flatten().map(String::as_str);
                let names = names(name, images.len(), tags)?;
                let added = self.add_saved(image, &layout, &names, progress)?;
                imported.extend(names.into_iter().map(|name| (name, added.clone())));
            }
        } else {
            for (names, descriptor) in self.listed(&layout, name)? {
                let added = self.add_listed(&descriptor, &layout, &names, progress)?;
                imported.extend(names.into_iter().map(|name| (name, added.clone())));
            }
        }
        if imported.is_empty() {
            return Err(Error::refused("the file contains no image"));
        }
        Ok(imported)
    }

    /// Adds an image of `docker save`. Only the layers of the configuration verify the archives, whose names say nothing.
    fn add_saved(
        &self,
        image: &Saved,
        layout: &Layout,
        names: &[Reference],
        progress: &Progress,
    ) -> Result<Image> {
        let missing =
            |file: &str| Error::refused(format!("the archive lacks its file `{}`", file.escape_debug()));
        let config = layout.read(&image.config, self.limits.config_bytes)?;
        let adding = Adding::new(self, config.ok_or_else(|| missing(&image.config))?, progress)?;
        for (diff_id, file) in adding.diff_ids(image.layers.len())?.iter().zip(&image.layers) {
            if !adding.has_layer(diff_id)? {
                let Content { reader, size } = layout.open_file(file)?.ok_or_else(|| missing(file))?;
                adding.add_layer(diff_id, Blob { reader, size, digest: None })?;
            }
        }
        adding.finish(names)
    }

    /// Returns the images that the index of a layout lists, with their names.
    fn listed(&self, layout: &Layout, name: Option<&Reference>) -> Result<Vec<(Vec<Reference>, Descriptor)>> {
        let index = layout.read("index.json", self.limits.manifest_bytes)?;
        let index = index.ok_or_else(|| {
            Error::refused("the file is neither an OCI layout nor an archive of `docker save`: it has no `index.json` and no `manifest.json`")
        })?;
        let Document::Index(manifests) = Document::parse(&index, &self.limits)? else {
            return Err(Error::refused("`index.json` of the layout is not an index"));
        };
        let full_name =
            |at: &Descriptor| at.annotation(FULL_NAME).or_else(|| at.annotation(NAME)).map(str::to_owned);
        let mut groups: Vec<(Option<String>, Vec<Descriptor>)> = Vec::new();
        for manifest in manifests {
            let name = full_name(&manifest);
            match groups.iter_mut().find(|(other, _)| *other == name) {
                Some((_, group)) => group.push(manifest),
                None => groups.push((name, vec![manifest])),
            }
        }
        let count = groups.len();
        let chosen = groups.into_iter().map(|(annotation, group)| {
            let names = names(name, count, annotation.as_deref().into_iter())?;
            let descriptor = match group.as_slice() {
                [only] => only,
                several => choose(several)?,
            };
            Ok((names, descriptor.clone()))
        });
        chosen.collect()
    }

    /// Adds an image of a layout.
    fn add_listed(
        &self,
        descriptor: &Descriptor,
        layout: &Layout,
        names: &[Reference],
        progress: &Progress,
    ) -> Result<Image> {
        let mut descriptor = descriptor.clone();
        for _ in 0..INDEXES {
            let text = layout.read_blob(&descriptor, self.limits.manifest_bytes)?;
            let manifest = match Document::parse(&text, &self.limits)? {
                Document::Index(manifests) => {
                    descriptor = choose(&manifests)?.clone();
                    continue;
                }
                Document::Manifest(manifest) => manifest,
            };
            let config = layout.read_blob(&manifest.config, self.limits.config_bytes)?;
            let adding = Adding::new(self, config, progress)?;
            for (diff_id, layer) in adding.diff_ids(manifest.layers.len())?.iter().zip(&manifest.layers) {
                if !adding.has_layer(diff_id)? {
                    let Content { reader, size } = layout.open_blob(layer)?;
                    adding.add_layer(diff_id, Blob { reader, size, digest: Some(layer.digest.clone()) })?;
                }
            }
            return adding.finish(names);
        }
        Err(Error::refused("the indexes of the image are nested too deeply"))
    }
}

/// Returns the names of an image: the given one, or else those of the file.
fn names<'a>(
    given: Option<&Reference>,
    images: usize,
    found: impl Iterator<Item = &'a str>,
) -> Result<Vec<Reference>> {
    if let Some(name) = given {
        if images > 1 {
            let text = format!(
                "the file contains {images} images, which cannot all have one name: leave out the name"
            );
            return Err(Error::refused(text));
        }
        return Ok(vec![name.clone()]);
    }
    // Many tools write only the tag.
    let names: Vec<_> =
        found.filter(|name| name.contains(['/', ':'])).filter_map(|name| name.parse().ok()).collect();
    if names.is_empty() {
        return Err(Error::refused("the file does not say which name the image has: pass one"));
    }
    Ok(names)
}

/// Checks the content of a blob.
fn check_blob(digest: &Digest, content: &[u8]) -> Result<()> {
    let computed = Digest::compute(content);
    if *digest == computed {
        return Ok(());
    }
    Err(Error::refused(format!("a file of the image is damaged: its digest is {computed}, not {digest}")))
}
