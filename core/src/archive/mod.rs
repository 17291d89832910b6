//! Directories as tar archives, through the other operations of a sandbox, for those that have no faster way.

mod foreign;
mod names;
mod pack;
#[doc(hidden)]
pub mod pieces;
mod unpack;

use std::pin::Pin;

use futures_util::stream::Stream;
use koze_protocol::tar::Damaged;

pub use koze_protocol::tar::Contents;

pub use self::foreign::foreign;
pub(crate) use self::names::Names;
pub use self::pack::pack;
pub use self::unpack::unpack;
use crate::error::{Code, Error, Result};

/// An archive in pieces. The last one comes with what the archive contains; earlier ones may, with what it contains up to
/// then.
#[cfg(not(target_arch = "wasm32"))]
pub type Tar = Pin<Box<dyn Stream<Item = Result<(Vec<u8>, Contents)>> + Send>>;
/// An archive in pieces. The last one comes with what the archive contains; earlier ones may, with what it contains up to
/// then.
#[cfg(target_arch = "wasm32")]
pub type Tar = Pin<Box<dyn Stream<Item = Result<(Vec<u8>, Contents)>>>>;

/// The bytes of an archive.
#[cfg(not(target_arch = "wasm32"))]
pub type Bytes<'a> = Pin<Box<dyn Stream<Item = Result<Vec<u8>>> + Send + 'a>>;
/// The bytes of an archive.
#[cfg(target_arch = "wasm32")]
pub type Bytes<'a> = Pin<Box<dyn Stream<Item = Result<Vec<u8>>> + 'a>>;

/// Returns the error for an archive that cannot be read.
pub(crate) fn damaged_error(Damaged(why): Damaged) -> Error {
    Error::new(Code::InvalidInput, format!("the archive of the snapshot is damaged: {why}"))
}

/// How much of a name an error contains, in characters.
const MAX_SHOWN: usize = 200;

/// Returns the error for an entry of an archive.
fn entry_error(name: &str, why: &str) -> Error {
    Error::new(Code::InvalidInput, format!("the archive's entry `{}` {why}", truncate_name(name)))
}

fn truncate_name(name: &str) -> String {
    if name.chars().nth(MAX_SHOWN).is_none() {
        return name.to_owned();
    }
    let mut shown: String = name.chars().take(MAX_SHOWN).collect();
    shown.push('…');
    shown
}
