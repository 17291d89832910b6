//! Manifests and indexes of images.

use std::collections::BTreeMap;
use std::env::consts;

use serde::Deserialize;

use crate::digest::Digest;
use crate::errors::{Error, Result};
use crate::limits::Limits;

/// A manifest, or an index of manifests.
#[derive(Debug)]
pub(crate) enum Document {
    Manifest(Manifest),
    Index(Vec<Descriptor>),
}

/// The parts of an image.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

/// A reference to a blob or another document.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Descriptor {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    platform: Option<Platform>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    os: String,
    architecture: String,
    variant: Option<String>,
}

#[derive(Deserialize)]
struct Fields {
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

impl Document {
    pub(crate) fn parse(text: &[u8], limits: &Limits) -> Result<Self> {
        let fields: Fields = serde_json::from_slice(text)
            .map_err(|error| Error::refused(format!("the manifest of the image is invalid: {error}")))?;
        match (fields.manifests, fields.config, fields.layers) {
            (Some(manifests), _, _) => Ok(Document::Index(manifests)),
            (None, Some(config), Some(layers)) => {
                if layers.len() > limits.layers {
                    let (count, limit) = (layers.len(), limits.layers);
                    return Err(Error::refused(format!(
                        "the image has {count} layers; at most {limit} are allowed"
                    )));
                }
                if config.size > limits.config_bytes {
                    return Err(Error::refused("the configuration of the image is too large"));
                }
                Ok(Document::Manifest(Manifest { config, layers }))
            }
            _ => Err(Error::refused(
                "the manifest is not that of an image: images in the format of 2015 must be pushed again",
            )),
        }
    }
}

impl Descriptor {
    /// Returns an annotation.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }

    fn is_for_this_machine(&self) -> bool {
        self.platform.as_ref().is_some_and(|platform| is_supported(&platform.os, &platform.architecture))
    }
}

/// Chooses the image for this machine from an index.
pub(crate) fn choose(manifests: &[Descriptor]) -> Result<&Descriptor> {
    // One without a variant runs on every machine of its architecture.
    let variant = |descriptor: &&Descriptor| descriptor.platform.as_ref().and_then(|at| at.variant.clone());
    let suited = || manifests.iter().filter(|descriptor| descriptor.is_for_this_machine());
    let chosen = suited().find(|descriptor| variant(descriptor).is_none()).or_else(|| suited().next());
    if let Some(chosen) = chosen {
        return Ok(chosen);
    }
    // Its configuration has the platform.
    if let [only] = manifests
        && only.platform.is_none()
    {
        return Ok(only);
    }
    let platforms = manifests.iter().filter_map(|descriptor| descriptor.platform.as_ref());
    // Attestations have no platform.
    let platforms = platforms.filter(|platform| platform.os != "unknown");
    let mut platforms: Vec<_> =
        platforms.map(|at| format!("{}/{}", at.os, at.architecture)).take(20).collect();
    platforms.sort();
    platforms.dedup();
    Err(foreign(&platforms.join(", ")))
}

/// Returns whether programs of a platform run on this machine.
pub(crate) fn is_supported(os: &str, architecture: &str) -> bool {
    os == "linux" && architecture == this_architecture()
}

/// Returns the error for an image of other platforms.
pub(crate) fn foreign(platforms: &str) -> Error {
    let platforms = if platforms.is_empty() { "no platform" } else { platforms };
    Error::refused(format!(
        "the image is for {}, and this machine needs linux/{}",
        platforms.escape_debug(),
        this_architecture()
    ))
}

/// Returns the name that images use for the architecture of this machine.
pub fn this_architecture() -> &'static str {
    match consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}
