//! The convention of `koze build` as pure functions over source text.
//!
//! Two frontends share this crate: the `#[sandbox]` macro, which hands it the tokens of one item, and the
//! command line, which hands it whole files. Both get the same [`Sandbox`] or the same [`Diagnostic`]s at the
//! same spans. Nothing here reads a file, an environment variable or the clock.
//!
//! | module | job |
//! |---|---|
//! | [`syntax`] | finds the `#[sandbox]` items of a file |
//! | [`attrs`] | the grammar of the attribute |
//! | [`backend`] | what runs behind the class of a sandbox |
//! | [`family`] | the families of tools |
//! | [`names`] | every derived name, made in one place |
//! | [`image`] | image references, and which image a sandbox runs |
//! | [`instance`] | how large a sandbox is |
//! | [`paths`] | paths by their words alone |
//! | [`sandbox`] | one item checked whole |
//! | [`project`] | checks over all sandboxes of a project |
//! | [`rules`] | the diagnostics of sandbox files: code, message, help |
//! | [`report`] | collects diagnostics |

pub mod attrs;
pub mod backend;
pub mod family;
pub mod image;
pub mod instance;
pub mod names;
pub mod paths;
pub mod project;
pub mod report;
pub mod rules;
pub mod sandbox;
pub mod syntax;

mod value;

pub use attrs::Attributes;
pub use backend::Backend;
pub use family::Family;
pub use names::Names;
pub use report::{Diagnostic, Report, Spot};
pub use rules::{Level, Rule};
pub use sandbox::Sandbox;
pub use value::Spanned;
