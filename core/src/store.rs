//! The store of a session: values and blobs that outlive its sandboxes. Tools keep their state in it.
//!
//! Stores of different sessions and tenants are separate. All providers have the same limits, so that what works on one
//! works on the others.

use std::future::Future;

use futures_util::Stream;

use crate::error::{Code, Error, Result};
use crate::maybe_send::{MaybeSend, MaybeSync};
use crate::sandbox::Piece;

/// The maximum length of a key in bytes.
pub const MAX_KEY: usize = 512;
/// The maximum size of a value in bytes. Larger content belongs in a blob.
pub const MAX_VALUE: usize = 1 << 20;
/// The maximum number of entries that one call lists.
pub const MAX_LISTED: usize = 1000;

/// The store of a session. A clone is the same store.
///
/// A value has a version, which changes with every write and is never used again for the same key. A blob is written and
/// replaced as a whole.
pub trait Store: Clone + MaybeSend + MaybeSync + 'static {
    /// Returns a value, if it exists.
    fn get(&self, key: &Key) -> impl Future<Output = Result<Option<Value>>> + MaybeSend;

    /// Writes a value if its current version is as expected. Returns the new version, or `None` if the current version is
    /// another one.
    ///
    /// # Errors
    /// [`Code::TooLarge`] for more than [`MAX_VALUE`] bytes.
    fn put(
        &self,
        key: &Key,
        bytes: Vec<u8>,
        expected: Expected,
    ) -> impl Future<Output = Result<Option<u64>>> + MaybeSend;

    /// Deletes a value if its current version is as expected. Returns whether it was deleted.
    fn delete(&self, key: &Key, expected: Expected) -> impl Future<Output = Result<bool>> + MaybeSend;

    /// Lists values, sorted by key: those that `range` selects.
    fn list(&self, range: &Range) -> impl Future<Output = Result<Vec<Listed>>> + MaybeSend;

    /// Checks that the store has a place for blobs.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if not, with what to configure.
    fn check_blobs(&self) -> Result<()> {
        Ok(())
    }

    /// Writes a blob, or replaces it. Returns its size in bytes. Until the content has ended without an error, the old blob
    /// stays, and the new one is not listed.
    fn put_blob(
        &self,
        key: &Key,
        content: impl Stream<Item = Result<Vec<u8>>> + MaybeSend + 'static,
    ) -> impl Future<Output = Result<u64>> + MaybeSend;

    /// Reads at most `limit` bytes of a blob from `offset`. Returns fewer only at the end, and `None` if there is no such
    /// blob.
    fn read_blob(
        &self,
        key: &Key,
        offset: u64,
        limit: u64,
    ) -> impl Future<Output = Result<Option<Piece>>> + MaybeSend;

    /// Deletes a blob. Returns whether it existed.
    fn delete_blob(&self, key: &Key) -> impl Future<Output = Result<bool>> + MaybeSend;

    /// Lists blobs, sorted by key: those that `range` selects.
    fn list_blobs(&self, range: &Range) -> impl Future<Output = Result<Vec<ListedBlob>>> + MaybeSend;
}

/// The key of a value or a blob: 1 to [`MAX_KEY`] bytes of text without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// Validates a key.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if it is empty, too long, or has a control character.
    pub fn new(key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        if key.is_empty() || key.len() > MAX_KEY || key.chars().any(char::is_control) {
            let message = format!("a key has 1 to {MAX_KEY} bytes and no control characters");
            return Err(Error::new(Code::InvalidInput, message));
        }
        Ok(Key(key))
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A value and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The version.
    pub version: u64,
}

/// The version that a write expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Any version, or none.
    Any,
    /// None: there is no value with this key.
    Absent,
    /// Exactly this version.
    Version(u64),
}

impl Expected {
    /// Returns whether the current version is as expected.
    #[doc(hidden)]
    pub fn matches(self, current: Option<u64>) -> bool {
        match self {
            Expected::Any => true,
            Expected::Absent => current.is_none(),
            Expected::Version(version) => current == Some(version),
        }
    }
}

/// A range of keys.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Range {
    /// The text that the keys start with. Empty for all keys.
    pub prefix: String,
    /// The key after which the list starts: the last one of the previous page.
    pub after: Option<String>,
    /// The maximum number of entries, at most [`MAX_LISTED`].
    pub limit: usize,
}

impl Range {
    /// Selects the first keys with a prefix.
    pub fn of(prefix: impl Into<String>) -> Self {
        Range { prefix: prefix.into(), after: None, limit: MAX_LISTED }
    }

    /// Returns the first key of the range, and whether it is excluded.
    #[doc(hidden)]
    pub fn start(&self) -> (&str, bool) {
        match self.after.as_deref() {
            Some(after) if after >= self.prefix.as_str() => (after, true),
            _ => (&self.prefix, false),
        }
    }

    /// Returns the number of entries to list.
    #[doc(hidden)]
    pub fn bounded(&self) -> usize {
        self.limit.min(MAX_LISTED)
    }
}

/// An entry of a list of values.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Listed {
    /// The key.
    pub key: String,
    /// The version.
    pub version: u64,
    /// The size of the value in bytes.
    pub size: u64,
}

/// An entry of a list of blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedBlob {
    /// The key.
    pub key: String,
    /// The size in bytes.
    pub size: u64,
}

/// Checks the size of a value.
///
/// # Errors
/// [`Code::TooLarge`] for more than [`MAX_VALUE`] bytes.
#[doc(hidden)]
pub fn check_size(bytes: &[u8]) -> Result<()> {
    if bytes.len() <= MAX_VALUE {
        return Ok(());
    }
    let message =
        format!("a value has at most {MAX_VALUE} bytes, and this one has {}: store a blob", bytes.len());
    Err(Error::new(Code::TooLarge, message))
}
