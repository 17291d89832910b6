//! The state of an agent: JSON values by key. Scripts and tools share it.

use serde_json::Value;

use super::Json;
use crate::error::{Code, Error, Result};
use crate::json::check_values;
use crate::store::{Expected, Key, MAX_VALUE, Range, Store};

/// The longest key in bytes.
const MAX_KEY: usize = 256;
/// How many keys one call lists.
const MAX_LISTED: usize = 10_000;
/// Where the state is in the store.
const PLACE: &str = "script/state/";

/// The state of an agent.
#[derive(Debug, Clone)]
pub(crate) struct State<S>(S);

impl<S: Store> State<S> {
    pub(crate) fn new(store: S) -> Self {
        State(store)
    }

    /// Returns a value, or `None` if the key is not set.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Value>> {
        let Some(found) = self.0.get(&store_key(key)?).await? else { return Ok(None) };
        let value = serde_json::from_slice(&found.bytes).map_err(|error| {
            Error::new(Code::Internal, format!("the value of `{key}` is not JSON")).with_source(error)
        })?;
        Ok(Some(value))
    }

    pub(crate) async fn set(&self, key: &str, value: &Json) -> Result<()> {
        let place = store_key(key)?;
        let bytes = value.text();
        if bytes.len() > MAX_VALUE {
            let message = format!(
                "the value of `{key}` has {} bytes of JSON, but may have at most {MAX_VALUE}: split it over several keys",
                bytes.len()
            );
            return Err(Error::new(Code::TooLarge, message));
        }
        // It must be possible to read it.
        check_values(bytes)?;
        self.0.put(&place, bytes.into(), Expected::Any).await.map(drop)
    }

    /// Deletes a value. Returns whether it existed.
    pub(crate) async fn delete(&self, key: &str) -> Result<bool> {
        self.0.delete(&store_key(key)?, Expected::Any).await
    }

    /// Returns the keys that start with a text, sorted.
    pub(crate) async fn list_keys(&self, prefix: &str) -> Result<Vec<String>> {
        let mut range = Range::of(format!("{PLACE}{prefix}"));
        let mut keys = Vec::new();
        loop {
            let page = self.0.list(&range).await?;
            let is_last = page.len() < range.limit;
            keys.extend(page.iter().filter_map(|listed| listed.key.strip_prefix(PLACE)).map(str::to_owned));
            if keys.len() > MAX_LISTED {
                let message = format!(
                    "more than {MAX_LISTED} keys start with `{prefix}`: list them with a longer prefix"
                );
                return Err(Error::new(Code::TooLarge, message));
            }
            match page.into_iter().next_back() {
                Some(last) if !is_last => range.after = Some(last.key),
                _ => return Ok(keys),
            }
        }
    }
}

fn store_key(key: &str) -> Result<Key> {
    if key.is_empty() || key.len() > MAX_KEY || key.chars().any(char::is_control) {
        let message = format!("a key of the state has 1 to {MAX_KEY} bytes and no control characters");
        return Err(Error::new(Code::InvalidInput, message));
    }
    Key::new(format!("{PLACE}{key}"))
}
