//! Determines the project's version of `@cloudflare/sandbox`. The image's tag must equal it.

mod pinned;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use cargo_metadata::{CargoOpt, MetadataCommand};
use semver::Version;
use serde_json::Value;

use crate::discover::Project;
use crate::finding::{Findings, Place, Stop};
use crate::paths;
use crate::rules::Rule;
use crate::write::{beneath, input};

/// The version that this koze was developed for and that messages recommend.
pub const RECOMMENDED: &str = "0.12.10";

/// The last day on which Cloudflare fixes 0.x.
pub const END_OF_FIXES: &str = "2026-12-31";

/// The npm package.
pub const PACKAGE: &str = "@cloudflare/sandbox";

/// Describes how long Cloudflare maintains the package.
pub fn maintenance() -> String {
    format!("{PACKAGE} 0.x gets fixes only until {END_OF_FIXES}; deployed Workers keep running")
}

/// The SDK version and where it was found.
#[derive(Debug, Clone)]
pub struct Sdk {
    /// An exact version: `0.12.10`.
    pub version: String,
    /// The file that determines it, relative to the package, or the crate.
    pub source: String,
}

/// Determines the SDK version from, in this order: `node_modules` in the package or a parent directory; an exact
/// version in a `package-lock.json` or `package.json`; the `koze` crate in the dependency graph.
///
/// # Errors
/// Returns [`Stop`] if the version is unknown or not supported, or a file is invalid.
pub fn resolve(project: &Project, findings: &mut Findings) -> Result<Sdk, Stop> {
    let Some(sdk) = find(project, findings)? else {
        let looked = "there is no `node_modules/@cloudflare/sandbox`, no `package-lock.json` or `package.json` \
                      with an exact version, and no `koze` crate in `Cargo.lock`";
        return findings
            .fail(Rule::NoSdk { looked: looked.to_owned(), recommended: RECOMMENDED.to_owned() }, None);
    };
    check_version(&sdk, findings)?;
    Ok(sdk)
}

/// Determines the SDK version without checking that it is supported.
///
/// # Errors
/// Returns [`Stop`] if a file is invalid.
pub fn find(project: &Project, findings: &mut Findings) -> Result<Option<Sdk>, Stop> {
    Ok(match installed(project, findings)? {
        Some(sdk) => Some(sdk),
        None => match find_pinned(project, findings)? {
            Some(sdk) => Some(sdk),
            None => of_crate(project),
        },
    })
}

/// Checks that the version is supported.
fn check_version(sdk: &Sdk, findings: &mut Findings) -> Result<(), Stop> {
    let (version, source) = (sdk.version.clone(), sdk.source.clone());
    let recommended = RECOMMENDED.to_owned();
    let parsed = Version::parse(&sdk.version).ok();
    match parsed.map(|version| (version.major, version.minor, version.patch)) {
        Some((0, 12, _)) => Ok(()),
        Some((0, 9..=11, _) | (0, 8, 11..)) => {
            findings.add(Rule::OldSdk { version, source, recommended }, None);
            Ok(())
        }
        _ => findings.fail(Rule::SdkOutOfRange { version, source, recommended }, None),
    }
}

/// Finds the installed package in the project's directory or a parent, as Node does.
///
/// # Errors
/// Returns [`Stop`] if its `package.json` is invalid.
pub fn installed(project: &Project, findings: &mut Findings) -> Result<Option<Sdk>, Stop> {
    for dir in project.dir.ancestors() {
        let path = dir.join("node_modules").join(PACKAGE).join("package.json");
        let Some(json) = read_json(project, dir, &path, findings)? else { continue };
        let file = paths::relative(&path, &project.dir);
        let Some(version) = json.get("version").and_then(Value::as_str) else {
            let message = "it has no `version`: reinstall the package".to_owned();
            return findings.fail(Rule::BadManifest { message }, Some(Place::file(file)));
        };
        return Ok(Some(Sdk { version: version.to_owned(), source: file }));
    }
    Ok(None)
}

/// Finds an exact version in the project's directory or a parent.
fn find_pinned(project: &Project, findings: &mut Findings) -> Result<Option<Sdk>, Stop> {
    for dir in project.dir.ancestors() {
        for file in pinned::FILES {
            let path = dir.join(file);
            let Some(json) = read_json(project, dir, &path, findings)? else { continue };
            if let Some(version) = pinned::version(file, &json, &project.dir, dir) {
                return Ok(Some(Sdk { version, source: paths::relative(&path, &project.dir) }));
            }
        }
    }
    Ok(None)
}

/// Returns the version that the `koze` crate of the dependency graph was made for.
///
/// The graph is read as it is locked and cached, because a build must neither create a `Cargo.lock` nor use the
/// network.
fn of_crate(project: &Project) -> Option<Sdk> {
    let metadata = graph(&project.dir.join("Cargo.toml"))?
        .features(CargoOpt::AllFeatures)
        .other_options(["--locked".to_owned(), "--offline".to_owned()])
        .exec()
        .ok()?;
    let koze = metadata.packages.iter().find(|package| package.name.as_str() == "koze")?;
    let version = koze.metadata.get("koze")?.get("sandbox-sdk")?.as_str()?;
    Some(Sdk { version: version.to_owned(), source: format!("the crate koze {}", koze.version) })
}

/// Returns the command that reads the dependency graph of a manifest.
///
/// It runs in the root directory: in the package, `.cargo/config.toml` and `rust-toolchain.toml` would choose the
/// programs to run.
pub fn graph(manifest: &Path) -> Option<MetadataCommand> {
    let root = manifest.ancestors().last().filter(|root| manifest.parent() != Some(root))?;
    let mut command = MetadataCommand::new();
    command.manifest_path(manifest).current_dir(root);
    Some(command)
}

/// Reads a JSON file in `dir` that may be missing.
fn read_json(
    project: &Project,
    dir: &Path,
    path: &Path,
    findings: &mut Findings,
) -> Result<Option<Value>, Stop> {
    let text = match input::read_text(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return findings.io(&error),
    };
    let text = text.trim_start_matches('\u{feff}');
    let error = match serde_json::from_str(text) {
        Ok(json) => return Ok(Some(json)),
        Err(error) => error,
    };
    let file = paths::relative(path, &project.dir);
    // A link may lead out of `dir`, to a file that may be secret: quote nothing of it.
    if beneath::resolve(dir, path).is_err() {
        let message = "this is not JSON".to_owned();
        return findings.fail(Rule::BadManifest { message }, Some(Place::file(file)));
    }
    let at = byte_offset(text, error.line(), error.column());
    let place = Place { file, text: Arc::from(text), range: Some(at..at) };
    findings.fail(Rule::BadManifest { message: format!("this is not JSON: {error}") }, Some(place))
}

/// Converts a line and column of `serde_json` to a byte offset.
fn byte_offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let mut at = (start + column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_supported_range() {
        for (version, errors, warnings) in [
            ("0.12.10", 0, 0),
            ("0.12.0", 0, 0),
            ("0.8.11", 0, 1),
            ("0.11.3", 0, 1),
            ("0.8.10", 1, 0),
            ("0.13.0", 1, 0),
            ("1.0.0", 1, 0),
            ("0.13.0-beta.1", 1, 0),
            ("banana", 1, 0),
        ] {
            let mut findings = Findings::default();
            let sdk = Sdk { version: version.to_owned(), source: String::new() };
            let _ = check_version(&sdk, &mut findings);
            let counts =
                (findings.count(koze_model::Level::Error), findings.count(koze_model::Level::Warning));
            assert_eq!(counts, (errors, warnings), "{version}");
        }
    }
}
