//! Locates the crate `koze` that a project depends on.

use std::path::{Path, PathBuf};

use crate::finding::{Findings, Stop};
use crate::paths;
use crate::rules::Rule;

/// Returns the directory of the crate `koze`: the given one, or that of the checkout from which this program runs or
/// was built.
pub(super) fn find(given: Option<&Path>, findings: &mut Findings) -> Result<PathBuf, Stop> {
    if let Some(given) = given {
        let path = fs_err::canonicalize(given).unwrap_or_else(|_| given.to_owned());
        if is_runtime(&path) {
            return Ok(path);
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
        .and_then(|path| fs_err::canonicalize(path).ok());
    if let Some(path) = found {
        Ok(path)
    } else {
        let why = "this koze does not run from a checkout, the checkout it was built from is gone, and the crate is not published yet".to_owned();
        findings.fail(Rule::NoRuntime { why }, None)
    }
}

fn is_runtime(dir: &Path) -> bool {
    let manifest = fs_err::read_to_string(dir.join("Cargo.toml")).unwrap_or_default();
    let name = manifest.parse::<toml_edit::Document<String>>().ok();
    let name = name.as_ref().and_then(|manifest| manifest.get("package")?.get("name")?.as_str());
    name == Some("koze")
}

/// Returns the path for a manifest: relative within one checkout, otherwise absolute.
pub(super) fn dependency_path(runtime: &Path, dir: &Path) -> String {
    let checkout = runtime.parent().unwrap_or(runtime);
    if dir.starts_with(checkout) { paths::relative(runtime, dir) } else { runtime.display().to_string() }
}
