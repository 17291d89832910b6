//! Edits JSONC and TOML files in place: only the bytes of the edited values change.
//!
//! Many tools have to change a few entries of a configuration file that a person wrote. Parsing the file and printing
//! it again loses comments, the order of keys, indentation, line endings and the byte order mark. This crate parses the
//! text once and turns each [`Edit`] into a splice of that text, so everything outside an edited value is copied byte
//! for byte. New entries follow the style of their neighbors: indentation, trailing commas, one line or several.
//!
//! ```
//! use koze_edit::{Document, Edit, Format, path};
//! use serde_json::json;
//!
//! let text = r#"{
//!     // The name of the service.
//!     "name": "shop",
//!     "hosts": [
//!         "a.example", // the first
//!     ],
//! }
//! "#;
//! let document = Document::parse(Format::Jsonc, text)?;
//! assert_eq!(document.value()["name"], "shop");
//!
//! let edited = document.apply(&[
//!     Edit::Push { path: path!["hosts"], value: json!("b.example") },
//!     Edit::Set { path: path!["limits", "cpu"], value: json!(2) },
//! ]);
//! assert_eq!(
//!     edited,
//!     r#"{
//!     // The name of the service.
//!     "name": "shop",
//!     "hosts": [
//!         "a.example", // the first
//!         "b.example",
//!     ],
//!     "limits": {
//!         "cpu": 2,
//!     },
//! }
//! "#
//! );
//! # Ok::<(), koze_edit::SyntaxError>(())
//! ```
//!
//! The same edits work on TOML, where objects become tables, and arrays of objects become arrays of tables:
//!
//! ```
//! use koze_edit::{Document, Edit, Format, path};
//! use serde_json::json;
//!
//! let document = Document::parse(Format::Toml, "name = \"shop\" # the service\n")?;
//! let edited = document.apply(&[Edit::Push { path: path!["hosts"], value: json!({ "name": "a.example" }) }]);
//! assert_eq!(edited, "name = \"shop\" # the service\n\n[[hosts]]\nname = \"a.example\"\n");
//! # Ok::<(), koze_edit::SyntaxError>(())
//! ```
//!
//! # Reading
//!
//! [`Document::value`] is the whole document as plain data, in the order of the file. [`Document::range`] and
//! [`Document::key_range`] return the bytes of a value and of its key, for messages that point at a place in the file.
//! [`SyntaxError`] has the byte range of the first error.
//!
//! # Editing
//!
//! [`Document::apply`] takes a batch of edits, all of which refer to the document as it was parsed, and returns the new
//! text. The document itself does not change.
//!
//! What the edits guarantee:
//!
//! - An edit that sets a value to what it already is changes no byte, even if the text spells the value differently.
//! - A batch that only pushes only inserts text, except that white space inside empty brackets may change.
//! - Removing the pushed entries again restores the original bytes, with the same exception.
//! - Comments outside a replaced or removed value are kept.
//!
//! # Limits
//!
//! - JSONC is JSON with comments and trailing commas. Other extensions, such as single quotes and unquoted keys, are
//!   syntax errors.
//! - TOML has no null: a null in a new value is left out. Dates and times are strings in [`Document::value`], and so are
//!   `inf` and `nan`.
//! - Nesting that is too deep is a syntax error: beyond 80 levels in TOML, and beyond several hundred in JSONC.

mod document;
mod edit;
mod error;
mod jsonc;
mod list;
mod parsed;
mod plan;
mod source;
mod toml;
mod tree;

pub use document::{Document, Format};
pub use edit::{Edit, Path, Step};
pub use error::SyntaxError;
