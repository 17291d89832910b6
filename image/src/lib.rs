//! A store of unpacked container images, for sandboxes on a Linux machine.
//!
//! The store is a directory that all projects of a user share. A layer is unpacked once, into a directory named after its
//! diff ID, and every image that has the layer uses the same directory. The layers of an image are meant to be the lower
//! directories of an overlay file system that is mounted in a user namespace, with `userxattr`:
//!
//! - a whiteout is a character device 0/0, and an opaque directory has the extended attribute `user.overlay.opaque`;
//! - if root unpacks, every file belongs to user and group [`OWNER`]; otherwise, to the user who unpacks. Owners in the archive
//!   are dropped, and so are set-user-ID and set-group-ID bits, devices and extended attributes.
//!
//! Images are hostile. Whatever an archive contains, unpacking it changes nothing outside of the layer's directory, and
//! memory and disk are bounded by [`Limits`].
//!
//! | module | job |
//! |---|---|
//! | `store` | the directories of a store, and its images by reference |
//! | `lock` | who adds and who removes; what a killed process left behind |
//! | `images` | lists and removes images; layers in use |
//! | `import` | images from files |
//! | `pull` | images from registries |
//! | `build` | images as layers on top of others, step by step; the files of an image without mounting it |
//! | `export` | images as files |
//! | `add` | layers and images that are being added |
//! | `unpack` | the archive of a layer, as files below a directory |
//! | `remove` | removes trees, whatever their depth and modes |
//! | `manifest`, `config`, `digest` | the documents of an image |
//! | `limits`, `progress`, `errors` | what an image may take, steps, and errors |

#![cfg(target_os = "linux")]

mod add;
mod build;
mod config;
mod digest;
mod errors;
mod export;
mod images;
mod import;
mod limits;
mod lock;
mod manifest;
mod progress;
mod pull;
mod remove;
mod store;
mod unpack;

pub use oci_client::Reference;

pub use self::build::{Building, Entry, EntryKind, NewLayer, Scratch, StepKey, Tree};
pub use self::config::{Config, DEFAULT_PATH};
pub use self::errors::{Error, Result};
pub use self::images::{Hold, Listed, Removed};
pub use self::limits::Limits;
pub use self::manifest::this_architecture as architecture;
pub use self::progress::{Event, Progress};
pub use self::store::{Image, Store};

/// The extended attribute of a directory that hides those of the layers below.
const OPAQUE: &str = "user.overlay.opaque";

/// The user and the group that own every file of a layer that root unpacked. No user of the host has this ID, so a file of
/// an image gives nobody anything.
pub const OWNER: u32 = 1_000_000;
