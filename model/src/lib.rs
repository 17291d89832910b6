//! The convention of `koze build` as pure functions over source text.
//!
//! Two frontends share this crate: the `#[sandbox]` and `#[container]` macros, which pass the tokens of one item, and the command line,
//! which passes whole files. Both get the same [`Sandbox`] or the same [`Diagnostic`]s at the same spans. The crate
//! does no I/O: it reads no file, no environment variable and no clock.
//!
//! | module | job |
//! |---|---|
//! | [`syntax`] | finds the declaring items of a file |
//! | [`attrs`] | the grammar of the attribute |
//! | [`depth`] | parses files, unless they are nested too deeply |
//! | [`backend`] | the backends of sandboxes |
//! | [`names`] | all derived names |
//! | [`image`] | image references, and the image that a sandbox runs |
//! | [`instance`] | the size of a sandbox |
//! | [`kind`] | what a file declares: a sandbox or a container |
//! | [`paths`] | lexical operations on paths |
//! | [`sandbox`] | checks a single sandbox |
//! | [`project`] | checks all sandboxes of a project together |
//! | [`rules`] | the diagnostics of sandbox files: code, message, help |
//! | [`report`] | collects diagnostics |

pub mod attrs;
pub mod backend;
pub mod depth;
pub mod dockerfile;
pub mod image;
pub mod instance;
pub mod kind;
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
pub use kind::Kind;
pub use koze_protocol::Family;
pub use names::Names;
pub use report::{Diagnostic, Report, Spot};
pub use rules::{Level, Rule};
pub use sandbox::Sandbox;
pub use value::Spanned;
