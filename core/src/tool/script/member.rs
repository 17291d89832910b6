//! Members of inputs that can be any JSON.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::value::RawValue;

use crate::json::{ReadError, parse_bounded};

/// How much memory a member can take whose type is any JSON, in units of [`parse_bounded`].
const MAX_MEMBER: usize = 1 << 19;

/// Decodes a member whose type contains any JSON, after its values were counted.
pub(super) fn deserialize_bounded<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    member: D,
) -> Result<T, D::Error> {
    let text = Box::<RawValue>::deserialize(member)?;
    let error = |error: ReadError| match error.into_tool_error() {
        Ok(error) => D::Error::custom(error.message),
        Err(error) => D::Error::custom(error),
    };
    let value = parse_bounded(text.get().as_bytes(), MAX_MEMBER).map_err(error)?;
    T::deserialize(value).map_err(D::Error::custom)
}
