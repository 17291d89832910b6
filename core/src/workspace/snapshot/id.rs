//! The ID of a snapshot.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};

/// The beginning of every ID.
const PREFIX: &str = "snap_";

/// The ID of a snapshot: `snap_` and 32 hexadecimal digits, which koze chooses at random.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SnapshotId(String);

impl SnapshotId {
    /// Validates an ID.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if it does not have the form of an ID.
    pub fn new(id: impl Into<String>) -> Result<Self> {
        let id = id.into();
        let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if id.strip_prefix(PREFIX).is_some_and(|rest| rest.len() == 32 && rest.bytes().all(hexadecimal)) {
            return Ok(SnapshotId(id));
        }
        let message = "a snapshot's ID must be `snap_` and 32 lowercase hexadecimal digits: use one that `snapshot` returned";
        Err(Error::new(Code::InvalidInput, message))
    }

    pub(super) fn random() -> Self {
        SnapshotId(format!("{PREFIX}{}", uuid::Uuid::new_v4().simple()))
    }

    /// Returns the ID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SnapshotId {
    type Error = Error;

    fn try_from(id: String) -> Result<Self> {
        SnapshotId::new(id)
    }
}

impl From<SnapshotId> for String {
    fn from(id: SnapshotId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_random_and_validated() {
        let id = SnapshotId::random();
        assert_ne!(id, SnapshotId::random());
        assert_eq!(SnapshotId::new(id.as_str()).unwrap(), id);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<SnapshotId>(&json).unwrap(), id);
        let upper = id.as_str().to_uppercase();
        for bad in ["", "snap_", "snap_../../etc/passwd/../../../../etc/p", &id.as_str()[5..], &upper] {
            assert_eq!(SnapshotId::new(bad).unwrap_err().code, Code::InvalidInput, "{bad}");
            assert!(serde_json::from_value::<SnapshotId>(bad.into()).is_err());
        }
    }
}
