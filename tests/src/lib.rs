//! The code shared by the test suites: the built `koze`, projects in temporary directories, the JavaScript tools under
//! Node 22, and the cases that every provider of sandboxes must pass.
//!
//! Helpers panic with a message about what they were doing, because only tests call them.

#![expect(clippy::missing_panics_doc, reason = "any of them panics when the machine fails it")]

mod binary;
pub mod conformance;
#[cfg(target_os = "linux")]
pub mod containers;
mod diff;
mod fixture;
mod generated;
mod net;
mod node;
mod page;
mod process;
mod project;
mod sandboxes;

use std::path::{Path, PathBuf};

use toml_edit::DocumentMut;

pub use binary::{koze, koze_without_namespaces, path_with_koze};
pub use diff::{Snapshot, diff};
pub use fixture::{BASE, is_guest, shared, shared_in, shared_of};
pub use generated::generated_program;
pub use net::hang_up;
pub use node::{framework_modules, node_command, node_modules, ui_modules};
pub use page::{Block, Shown, page_blocks, shown_commands};
pub use process::run;
pub use project::{NOTE, Project, Run, read_all};
pub use sandboxes::{STARTED, Sandboxes, eventually, processes, signal, sleeps};

/// Returns the workspace's directory.
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// Returns the table `profile` of the workspace. With the same profiles, the dependencies of other projects are up to date.
pub fn profiles() -> DocumentMut {
    let manifest = fs_err::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    let manifest: DocumentMut = manifest.parse().expect("TOML");
    let mut profiles = DocumentMut::new();
    profiles.insert("profile", manifest["profile"].clone());
    profiles
}
