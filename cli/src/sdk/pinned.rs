//! Exact versions in the files of package managers: lock files and `package.json`.

use std::collections::BTreeSet;
use std::path::Path;

use koze_edit::{Document, Format};
use semver::Version;
use serde_json::Value;

use super::{PACKAGE, pnpm, yarn};
use crate::paths;

/// The files that may pin a version, in the order of precedence within a directory.
pub(super) const FILES: [&str; 5] =
    ["package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "package.json"];

/// The dependency lists of a `package.json`, which lock files copy.
const LISTS: [&str; 3] = ["dependencies", "devDependencies", "optionalDependencies"];

/// A file with an invalid format.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The expected format.
    pub(super) format: &'static str,
    /// The byte offset, if the parser reports one.
    pub(super) at: Option<usize>,
    /// The parser's message.
    pub(super) message: Option<String>,
}

/// The package that imports the SDK. The lock file of a workspace may contain several versions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Importer<'a> {
    /// The project's directory.
    pub(super) project: &'a Path,
    /// The directory of the lock file: the project's or a parent.
    pub(super) root: &'a Path,
}

impl Importer<'_> {
    /// Returns the directories in which Node looks for the SDK, from the project upward, relative to the lock file; `.`
    /// is the lock file's own directory.
    pub(super) fn dirs(&self) -> impl Iterator<Item = String> {
        let within = self.project.ancestors().take_while(|dir| dir.starts_with(self.root));
        within.map(|dir| paths::relative(dir, self.root))
    }

    /// Returns the range that the nearest `package.json` requests.
    pub(super) fn range(&self) -> Option<String> {
        self.dirs().find_map(|dir| {
            let text = fs_err::read_to_string(self.root.join(dir).join("package.json")).ok()?;
            let package = json(text.trim_start_matches('\u{feff}')).ok()?;
            asked(&package).map(str::to_owned)
        })
    }
}

/// Returns the version that a file pins for this importer, if any.
///
/// # Errors
/// Returns an error if a file has an invalid format.
pub(super) fn version(file: &str, text: &str, importer: &Importer) -> Result<Option<String>, Wrong> {
    Ok(match file {
        "package-lock.json" => locked(&json(text)?, importer),
        "package.json" => exact(&json(text)?),
        "bun.lock" => bun(&jsonc(text)?, importer),
        // Parsing a large lock file without the SDK would be a waste of time.
        _ if !text.contains(PACKAGE) => None,
        "pnpm-lock.yaml" => pnpm::version(text, importer)?,
        _ => yarn::version(text, importer)?,
    })
}

/// Parses JSON.
pub(super) fn json(text: &str) -> Result<Value, Wrong> {
    serde_json::from_str(text).map_err(|error| Wrong {
        format: "JSON",
        at: Some(super::offset(text, error.line(), error.column())),
        message: Some(error.to_string()),
    })
}

/// Parses JSON with trailing commas, which bun writes.
fn jsonc(text: &str) -> Result<Value, Wrong> {
    match Document::parse(Format::Jsonc, text) {
        Ok(document) => Ok(document.value().clone()),
        Err(error) => {
            Err(Wrong { format: "JSON", at: Some(error.range.start), message: Some(error.message) })
        }
    }
}

/// Reads npm's lock file, which has an entry for each installed directory.
fn locked(lock: &Value, importer: &Importer) -> Option<String> {
    let Some(packages) = lock.get("packages") else {
        return Some(lock.get("dependencies")?.get(PACKAGE)?.get("version")?.as_str()?.to_owned());
    };
    importer.dirs().find_map(|dir| {
        let prefix = if dir == "." { String::new() } else { format!("{dir}/") };
        let entry = packages.get(format!("{prefix}node_modules/{PACKAGE}"))?;
        Some(entry.get("version")?.as_str()?.to_owned())
    })
}

/// Returns the range that a `package.json` requests.
fn asked(package: &Value) -> Option<&str> {
    LISTS.iter().find_map(|kind| package.get(kind)?.get(PACKAGE)?.as_str())
}

/// Returns the requested version if it is exact.
fn exact(package: &Value) -> Option<String> {
    LISTS.iter().find_map(|kind| {
        let version = package.get(kind)?.get(PACKAGE)?.as_str()?;
        let version = version.trim().trim_start_matches('=');
        Version::parse(version).ok().map(|_| version.to_owned())
    })
}

/// Reads bun's lock file: `"packages": { "@cloudflare/sandbox": ["@cloudflare/sandbox@0.12.10", …] }`. A workspace
/// package with another version has its own key, which starts with its name.
fn bun(lock: &Value, importer: &Importer) -> Option<String> {
    let packages = lock.get("packages")?;
    let nested = |dir: String| {
        let dir = if dir == "." { "" } else { &dir };
        let name = lock.get("workspaces")?.get(dir)?.get("name")?.as_str()?;
        packages.get(format!("{name}/{PACKAGE}"))
    };
    let entry = importer.dirs().find_map(nested).or_else(|| packages.get(PACKAGE))?;
    let version = entry.get(0)?.as_str()?.strip_prefix(PACKAGE)?.strip_prefix('@')?;
    Version::parse(version).ok().map(|_| version.to_owned())
}

/// Returns the version if all are equal. Several different versions are ambiguous.
pub(super) fn only(versions: impl Iterator<Item = String>) -> Option<String> {
    let versions: BTreeSet<String> = versions.collect();
    let mut versions = versions.into_iter();
    versions.next().filter(|_| versions.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, text: &str) -> Result<Option<String>, Wrong> {
        version(file, text, &Importer { project: Path::new("/p"), root: Path::new("/p") })
    }

    fn find(file: &str, text: &str) -> Option<String> {
        read(file, text).unwrap()
    }

    #[test]
    fn only_exact_versions_of_a_package_json_count() {
        let version = |text: &str| exact(&serde_json::json!({ "devDependencies": { PACKAGE: text } }));
        assert_eq!(version("0.12.10").as_deref(), Some("0.12.10"));
        assert_eq!(version("=0.12.10").as_deref(), Some("0.12.10"));
        for range in ["^0.12.10", "~0.12", "0.12", "latest", "*", ">=0.12.0", "workspace:*", ""] {
            assert_eq!(version(range), None, "{range}");
        }
    }

    #[test]
    fn every_kind_of_lock_file_is_read() {
        for (file, text) in [
            (
                "package-lock.json",
                r#"{"packages":{"node_modules/@cloudflare/sandbox":{"version":"0.12.9"}}}"#,
            ),
            ("package-lock.json", r#"{"dependencies":{"@cloudflare/sandbox":{"version":"0.12.9"}}}"#),
            (
                "bun.lock",
                r#"{"packages":{"@cloudflare/sandbox":["@cloudflare/sandbox@0.12.9","",{},"sha512-x"],},}"#,
            ),
            (
                "yarn.lock",
                "\"@cloudflare/sandbox@^0.12.0\":\n  version \"0.12.9\"\n\nother@1:\n  version \"1.0.0\"\n",
            ),
            ("yarn.lock", "\"@cloudflare/sandbox@npm:0.12.9\":\n  version: 0.12.9\n  resolution: x\n"),
            ("pnpm-lock.yaml", "packages:\n\n  '@cloudflare/sandbox@0.12.9':\n    resolution: {}\n"),
            (
                "pnpm-lock.yaml",
                "snapshots:\n  '@cloudflare/sandbox@0.12.9(@xterm/xterm@5.5.0)':\n    dependencies:\n      a: 1.0.0\n",
            ),
            ("pnpm-lock.yaml", "packages:\n  /@cloudflare/sandbox/0.12.9:\n    dev: false\n"),
        ] {
            assert_eq!(find(file, text).as_deref(), Some("0.12.9"), "{file}: {text}");
        }
    }

    #[test]
    fn ambiguous_lock_files_pin_nothing() {
        for (file, text) in [
            ("package-lock.json", "{}"),
            ("bun.lock", "{}"),
            ("yarn.lock", "other@1:\n  version \"1.0.0\"\n"),
            ("yarn.lock", "\"@cloudflare/sandbox-tools@1\":\n  version \"1.0.0\"\n"),
            (
                "pnpm-lock.yaml",
                "  '@cloudflare/sandbox@0.12.9':\n    x: y\n  '@cloudflare/sandbox@0.11.0':\n    x: y\n",
            ),
            (
                "pnpm-lock.yaml",
                "importers:\n  .:\n    dependencies:\n      '@cloudflare/sandbox':\n        specifier: ^0.12.0\n",
            ),
        ] {
            assert_eq!(find(file, text), None, "{file}: {text}");
        }
    }

    #[test]
    fn invalid_json_is_reported() {
        assert_eq!(read("package.json", "{,}").unwrap_err().at, Some(1));
        assert_eq!(read("bun.lock", "{,}").unwrap_err().at, Some(1));
    }

    /// The nearest directory in which Node finds the SDK counts.
    #[test]
    fn the_package_selects_one_of_several_versions() {
        let of = |file: &str, text: &str, project: &str| {
            let importer = Importer { project: Path::new(project), root: Path::new("/w") };
            version(file, text, &importer).unwrap().unwrap_or_default()
        };
        let npm = r#"{"packages":{
            "node_modules/@cloudflare/sandbox":{"version":"0.12.1"},
            "apps/a/node_modules/@cloudflare/sandbox":{"version":"0.12.2"},
            "apps/link/node_modules/@cloudflare/sandbox":{"link":true}}}"#;
        let bun = r#"{"workspaces":{"":{"name":"w"},"apps/a":{"name":"a"},"apps/b":{"name":"b"}},"packages":{
            "@cloudflare/sandbox":["@cloudflare/sandbox@0.12.1","",{},""],
            "a/@cloudflare/sandbox":["@cloudflare/sandbox@0.12.2","",{},""],}}"#;
        for (file, text) in [("package-lock.json", npm), ("bun.lock", bun)] {
            assert_eq!(of(file, text, "/w/apps/a"), "0.12.2", "{file}");
            assert_eq!(of(file, text, "/w/apps/a/worker"), "0.12.2", "{file}");
            assert_eq!(of(file, text, "/w/apps/b"), "0.12.1", "{file}");
            assert_eq!(of(file, text, "/w"), "0.12.1", "{file}");
        }
        assert_eq!(of("package-lock.json", npm, "/w/apps/link"), "0.12.1");
    }
}
