//! The image of a sandbox: its files are the sandbox's root, with the sandbox's changes on top. A sandbox keeps the image that it was created
//! with.
//!
//! Only one user is mapped, who owns all files. So root of an image has no capabilities here, and needs none to install packages: no file
//! can belong to another user, and changes of owners are reported as successful.

mod choice;

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use koze_image::{Config, DEFAULT_PATH, Hold, Image, OWNER, Store};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::errors::state_failed;
use crate::host::layout;
use crate::launch::{Overlay, User};
use crate::layers::{read_record, write_atomically};
use koze_core::error::{Code, Error, Result};
use koze_core::path::HOME;
use koze_core::provider::Profile;

pub(crate) use self::choice::list_used;

/// The name of the record in the directory of a sandbox.
const RECORD: &str = "image";
/// The directory with the sandbox's changes, and the names in it.
const SYSTEM: &str = "files/system";
const UPPER: &str = "upper";
const WORK: &str = "work";
/// The directory of apt's settings.
const APT_SETTINGS: &str = "etc/apt/apt.conf.d";
/// The name of koze's settings there.
const APT_FILE: &str = "90koze";

/// The image that a sandbox was created with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxImage {
    /// The digest of its configuration.
    id: String,
    /// The image as the profile declares it.
    reference: String,
    /// Whether it is built from a Dockerfile.
    #[serde(default)]
    is_built: bool,
    /// The directory of its layers on the host, and their names in it, lowest first.
    directory: PathBuf,
    layers: Vec<String>,
    env: Vec<(String, String)>,
    user: u32,
    group: u32,
}

/// An image that stays in its store, because a sandbox is running on it.
#[derive(Debug)]
pub(crate) struct HeldImage {
    pub(crate) image: SandboxImage,
    _hold: Hold,
}

impl SandboxImage {
    /// Reads the record of a sandbox.
    pub(crate) fn of(sandbox: &Path) -> Result<Option<Self>> {
        read_record(&sandbox.join(RECORD))
    }

    /// Chooses the image of a new sandbox, whose directory exists. `None` means this machine's programs.
    pub(crate) fn choose(sandbox: &Path, images: Option<&Path>, profile: &Profile) -> Result<Option<Self>> {
        let Some((store, image)) = choice::choose(images, profile)? else { return Ok(None) };
        let chosen = Self::new(image, &store, profile)?;
        let record = serde_json::to_vec(&chosen).map_err(|error| state_failed(error.into()))?;
        write_atomically(&sandbox.join(RECORD), &record).map_err(state_failed)?;
        Ok(Some(chosen))
    }

    fn new(image: Image, store: &Store, profile: &Profile) -> Result<Self> {
        let reference = &profile.reference;
        let User { user, group } = find_user(store.layers(), &image).map_err(|error| {
            let text = format!("the user of the image `{reference}` cannot be determined: {error}");
            Error::new(Code::Unavailable, text)
        })?;
        Ok(SandboxImage {
            id: image.id,
            reference: reference.clone(),
            is_built: profile.stored.is_some(),
            directory: store.layers().to_owned(),
            layers: image.layers,
            env: image.config.env,
            user,
            group,
        })
    }

    /// Returns the digest of its configuration.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the user that its programs run as.
    pub(crate) fn user(&self) -> User {
        User { user: self.user, group: self.group }
    }

    /// Keeps the image in its store until the result is dropped.
    pub(crate) fn hold(self) -> Result<HeldImage> {
        let image = Image { id: self.id.clone(), layers: self.layers.clone(), config: Config::default() };
        let store = self
            .directory
            .parent()
            .ok_or(io::ErrorKind::InvalidData)
            .map_err(|kind| state_failed(kind.into()))?;
        let held = Store::open(store).and_then(|store| store.hold(&image)).map_err(|error| {
            let next = if self.is_built {
                "run `koze image build`".to_owned()
            } else {
                format!("run `koze image pull {}`", self.reference)
            };
            let text = format!(
                "the image `{}` of this sandbox is no longer in the store: {error}: {next}, or destroy the sandbox and create it again",
                self.reference
            );
            Error::new(Code::Unavailable, text).with_source(error)
        });
        Ok(HeldImage { _hold: held?, image: self })
    }

    /// Prepares the root of a sandbox that is about to start.
    pub(crate) fn root(&self, sandbox: &Path, owner: Option<u32>) -> Result<Overlay> {
        let system = sandbox.join(SYSTEM);
        let prepare = || {
            layout::create_owned_directory(&system, 0o755, owner)?;
            layout::create_owned_directory(&system.join(UPPER), 0o755, owner)?;
            layout::renew_work_directory(&system.join(WORK), owner)
        };
        prepare().map_err(state_failed)?;
        Ok(Overlay {
            target: String::new(),
            lower: self.directory.as_os_str().as_bytes().to_vec(),
            layers: self.layers.clone(),
            layers_owner: OWNER,
            own: system.as_os_str().as_bytes().to_vec(),
            upper: UPPER.to_owned(),
            work: WORK.to_owned(),
        })
    }

    /// Returns the environment of every program: the image's variables, and the home of every host.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let mut env = self.env.clone();
        if !env.iter().any(|(name, value)| name == "PATH" && !value.is_empty()) {
            env.push(("PATH".to_owned(), DEFAULT_PATH.to_owned()));
        }
        env.retain(|(name, _)| name != "HOME");
        env.push(("HOME".to_owned(), HOME.to_owned()));
        env
    }

    /// Returns the files that this sandbox needs in addition to those of the image: path and content.
    pub(crate) fn texts(&self) -> Option<(String, String)> {
        // By default, apt downloads as a user of its own, which is not mapped.
        let has_apt = self.layers.iter().any(|layer| self.directory.join(layer).join(APT_SETTINGS).is_dir());
        let text = "// Only one user is mapped in this sandbox.\nAPT::Sandbox::User \"root\";\n";
        has_apt.then(|| (format!("{APT_SETTINGS}/{APT_FILE}"), text.to_owned()))
    }
}

/// Returns the directory with the changes of a sandbox to its image: the upper directory of an overlay.
pub(crate) fn changes_directory(sandbox: &Path) -> PathBuf {
    sandbox.join(SYSTEM).join(UPPER)
}

/// Returns whether a path of [`LocalSandbox::image_changes`](crate::LocalSandbox::image_changes), relative to the root, is what every
/// sandbox has, and not a change of its programs.
pub fn is_of_sandbox(path: &Path) -> bool {
    const OWN: [&str; 8] =
        ["dev", "proc", "sys", "var/lib/koze", "etc/hostname", "etc/hosts", "etc/mtab", "etc/resolv.conf"];
    path == Path::new(APT_SETTINGS).join(APT_FILE) || OWN.iter().any(|own| path == Path::new(own))
}

/// Determines the user of an image, as a number or by the image's `/etc/passwd`.
fn find_user(directory: &Path, image: &Image) -> io::Result<User> {
    let (user, group) = image.config.user.split_once(':').unwrap_or((&image.config.user, ""));
    let users = || read_top(directory, &image.layers, "etc/passwd");
    let groups = || read_top(directory, &image.layers, "etc/group");
    let unknown = |kind, name: &str| io::Error::other(format!("it has no {kind} `{name}`"));
    let (user, default_group) = match user {
        "" | "root" => (0, 0),
        user => {
            let users = users()?;
            let known = users.lines().find_map(|line| {
                let fields: Vec<_> = line.split(':').collect();
                let is_known = fields.first() == Some(&user) || fields.get(2) == Some(&user);
                let number = |index: usize| fields.get(index)?.parse::<u32>().ok();
                is_known.then(|| Some((number(2)?, number(3)?))).flatten()
            });
            known.or_else(|| Some((user.parse().ok()?, 0))).ok_or_else(|| unknown("user", user))?
        }
    };
    let group = match group {
        "" => default_group,
        group => {
            let groups = groups()?;
            let known = groups.lines().find_map(|line| {
                let mut fields = line.split(':');
                (fields.next() == Some(group)).then(|| fields.nth(1)?.parse().ok()).flatten()
            });
            known.or_else(|| group.parse().ok()).ok_or_else(|| unknown("group", group))?
        }
    };
    Ok(User { user, group })
}

/// Reads a small text file of an image. Links are resolved inside the layer. Returns an empty text if there is none.
fn read_top(directory: &Path, layers: &[String], path: &str) -> io::Result<String> {
    const MAX: u64 = 1 << 20;
    for layer in layers.iter().rev() {
        let layer = rustix::fs::open(directory.join(layer), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&layer, path, flags, Mode::empty(), within) {
            Ok(file) => {
                let mut text = Vec::new();
                fs::File::from(file).take(MAX).read_to_end(&mut text)?;
                return Ok(String::from_utf8_lossy(&text).into_owned());
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(String::new())
}
