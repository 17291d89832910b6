//! Paths and edits.

use serde_json::Value;

/// One step of a [`Path`], from a value to a value inside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Selects the property with this name.
    Key(String),
    /// Selects the array element at this position, counted from zero.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<String> for Step {
    fn from(key: String) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The steps from the root of a document to a value. The empty path is the root.
pub type Path = Vec<Step>;

/// Creates a [`Path`] from keys and indices.
///
/// ```
/// use koze_edit::{Step, path};
///
/// assert_eq!(path!["hosts", 0], vec![Step::Key("hosts".to_owned()), Step::Index(0)]);
/// ```
#[macro_export]
macro_rules! path {
    ($($step:expr),* $(,)?) => {
        <[$crate::Step]>::into_vec(::std::boxed::Box::new([
            $($crate::Step::from($step)),*
        ]))
    };
}

/// Changes one place of a [`Document`](crate::Document). The path refers to the document as it was parsed.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Sets the property or element at `path`: replaces its value, or inserts the property at the end of its object.
    /// Creates missing parent objects. Changes nothing if the value is already equal.
    Set {
        /// The property or element to set. An index must exist.
        path: Path,
        /// The new value. TOML has no null: there, a null is left out.
        value: Value,
    },
    /// Appends an element to the array at `path`. Creates the array and its parent objects if they are missing, and
    /// replaces a null by an array. Several pushes to one array keep their order.
    Push {
        /// The array to append to.
        path: Path,
        /// The new element.
        value: Value,
    },
    /// Removes the property or element. Does nothing if it does not exist.
    Remove {
        /// The property or element to remove. Must not be the root.
        path: Path,
    },
}
