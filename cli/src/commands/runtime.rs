//! Determines where the crate `koze` that a project depends on comes from.

use std::path::{Path, PathBuf};

use toml_edit::Value;

use crate::finding::{Findings, Stop};
use crate::paths;
use crate::rules::Rule;
use crate::write::input;

/// This crate's manifest. Cargo replaces what it takes from the workspace when it packs the crate.
const MANIFEST: &str = include_str!("../../Cargo.toml");

/// The source of the crate `koze`.
pub(super) enum Runtime {
    /// Its directory in a checkout.
    Checkout(PathBuf),
    /// The registry, from which this program was installed, too.
    Published,
}

impl Runtime {
    /// Returns the value of the dependency for the manifest of a package in `dir`, in TOML.
    pub(super) fn dependency(&self, dir: &Path) -> String {
        match self {
            Runtime::Checkout(runtime) => {
                format!("{{ path = {} }}", Value::from(dependency_path(runtime, dir)).to_string().trim())
            }
            Runtime::Published => Value::from(env!("CARGO_PKG_VERSION")).to_string(),
        }
    }
}

/// Returns the given directory, or that of the checkout from which this program runs or was built. Without a checkout, a
/// program that was built from a published crate uses the published one of the same version.
pub(super) fn find(given: Option<&Path>, findings: &mut Findings) -> Result<Runtime, Stop> {
    if let Some(given) = given {
        let path = paths::canonical(given).unwrap_or_else(|_| given.to_owned());
        if is_runtime(&path) {
            return Ok(Runtime::Checkout(path));
        }
        let why = format!("`{}` does not contain a crate of that name", given.display());
        return findings.fail(Rule::NoRuntime { why }, None);
    }
    // `cargo run` sets the package's directory. Otherwise the program is in the checkout's `target`, the working
    // directory is in the checkout, or `cargo install --path` built the program.
    let places = [
        std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from),
        std::env::current_exe().ok(),
        std::env::current_dir().ok(),
        Some(PathBuf::from(env!("CARGO_MANIFEST_DIR"))),
    ];
    let found = places
        .iter()
        .flatten()
        .flat_map(|place| place.ancestors())
        .map(|dir| dir.join("runtime"))
        .find(|path| is_runtime(path))
        .and_then(|path| paths::canonical(&path).ok());
    if let Some(path) = found {
        Ok(Runtime::Checkout(path))
    } else if is_packed(MANIFEST) {
        Ok(Runtime::Published)
    } else {
        let why = "this koze does not run from a checkout, the checkout it was built from is gone, and the crate is not published yet".to_owned();
        findings.fail(Rule::NoRuntime { why }, None)
    }
}

/// Returns whether a manifest is one of a packed crate.
fn is_packed(manifest: &str) -> bool {
    !manifest.contains(".workspace = true")
}

fn is_runtime(dir: &Path) -> bool {
    let manifest = input::read_text(&dir.join("Cargo.toml")).unwrap_or_default();
    let name = manifest.parse::<toml_edit::Document<String>>().ok();
    let name = name.as_ref().and_then(|manifest| manifest.get("package")?.get("name")?.as_str());
    name == Some("koze")
}

/// Returns the path for a manifest: relative within one checkout, otherwise absolute.
fn dependency_path(runtime: &Path, dir: &Path) -> String {
    let checkout = runtime.parent().unwrap_or(runtime);
    if dir.starts_with(checkout) { paths::relative(runtime, dir) } else { paths::slashed(runtime) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_is_a_path_or_a_version() {
        let checkout = Runtime::Checkout(PathBuf::from("/koze/runtime"));
        assert_eq!(checkout.dependency(Path::new("/koze/target/x")), "{ path = \"../../runtime\" }");
        assert_eq!(checkout.dependency(Path::new("/x")), "{ path = \"/koze/runtime\" }");
        assert_eq!(
            Runtime::Published.dependency(Path::new("/x")),
            format!("\"{}\"", env!("CARGO_PKG_VERSION"))
        );
    }

    #[test]
    fn a_packed_manifest_is_recognized() {
        assert!(is_packed("[package]\nversion = \"0.1.0\"\n"));
        assert!(!is_packed("[package]\nversion.workspace = true\n"));
    }
}
