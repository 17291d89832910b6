//! The configuration of an image: what its programs expect, and which layers it has.

use serde::Deserialize;

use crate::digest::Digest;
use crate::errors::{Error, Result};
use crate::limits::Limits;

/// `PATH` of programs if the image sets none.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What the programs of an image expect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The environment variables, in the order of the image.
    pub env: Vec<(String, String)>,
    /// The working directory; empty if the image names none.
    pub working_dir: String,
    /// The user, as a name or an ID, perhaps with a group (`user:group`); empty if the image names none, which means root.
    pub user: String,
}

/// The parts of a configuration file that koze reads.
#[derive(Debug, Deserialize)]
pub(crate) struct ConfigFile {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Option<Settings>,
    rootfs: RootFs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Settings {
    #[serde(default)]
    env: Option<Vec<String>>,
    #[serde(default)]
    working_dir: Option<String>,
    #[serde(default)]
    user: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Option<Vec<Digest>>,
}

impl ConfigFile {
    /// Parses a configuration file, and checks that it names no more layers than an image may have.
    pub(crate) fn parse(text: &[u8], limits: &Limits) -> Result<Self> {
        let file: ConfigFile = serde_json::from_slice(text)
            .map_err(|error| Error::refused(format!("the configuration of the image is invalid: {error}")))?;
        let count = file.diff_ids().len();
        if count > limits.layers {
            return Err(Error::refused(format!(
                "the image has {count} layers; at most {} are allowed",
                limits.layers
            )));
        }
        Ok(file)
    }

    /// Returns the digests of the uncompressed layers, lowest first.
    pub(crate) fn diff_ids(&self) -> &[Digest] {
        self.rootfs.diff_ids.as_deref().unwrap_or_default()
    }

    /// Returns the operating system and the architecture.
    pub(crate) fn platform(&self) -> (&str, &str) {
        (&self.os, &self.architecture)
    }

    /// Returns what the programs of the image expect.
    pub(crate) fn config(&self) -> Config {
        let Some(settings) = &self.config else { return Config::default() };
        let variables = settings.env.iter().flatten();
        let pair = |variable: &String| {
            let (name, value) = variable.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        Config {
            env: variables.filter_map(pair).collect(),
            working_dir: settings.working_dir.clone().unwrap_or_default(),
            user: settings.user.clone().unwrap_or_default(),
        }
    }
}
