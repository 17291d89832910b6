//! Exact versions in the files of package managers: lock files and `package.json`.

use koze_edit::{Document, Format};
use semver::Version;
use serde_json::Value;

use super::importer::{Importer, LISTS, Wrong, json};
use super::{PACKAGE, pnpm, yarn};

/// The files that may pin a version, in the order of precedence within a directory.
pub(super) const FILES: [&str; 5] =
    ["package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "package.json"];

/// Returns the version that a file pins for this importer, if any.
///
/// # Errors
/// Returns an error if a file has an invalid format.
pub(super) fn version(file: &str, text: &str, importer: &Importer) -> Result<Option<String>, Wrong> {
    Ok(match file {
        "package-lock.json" => read_npm_lock(&json(text)?, importer),
        "package.json" => exact_version(&json(text)?),
        "bun.lock" => read_bun_lock(&parse_jsonc(text)?, importer),
        // Parsing a large lock file without the SDK would be a waste of time.
        _ if !text.contains(PACKAGE) => None,
        "pnpm-lock.yaml" => pnpm::version(text, importer)?,
        _ => yarn::version(text, importer)?,
    })
}

/// Parses JSON with trailing commas, which bun writes.
fn parse_jsonc(text: &str) -> Result<Value, Wrong> {
    match Document::parse(Format::Jsonc, text) {
        Ok(document) => Ok(document.value().clone()),
        Err(error) => {
            Err(Wrong { format: "JSON", at: Some(error.range.start), message: Some(error.message) })
        }
    }
}

/// Reads npm's lock file, which has an entry for each installed directory.
fn read_npm_lock(lock: &Value, importer: &Importer) -> Option<String> {
    let Some(packages) = lock.get("packages") else {
        return Some(lock.get("dependencies")?.get(PACKAGE)?.get("version")?.as_str()?.to_owned());
    };
    importer.dirs().find_map(|dir| {
        let prefix = if dir == "." { String::new() } else { format!("{dir}/") };
        let entry = packages.get(format!("{prefix}node_modules/{PACKAGE}"))?;
        Some(entry.get("version")?.as_str()?.to_owned())
    })
}

/// Returns the requested version if it is exact.
fn exact_version(package: &Value) -> Option<String> {
    LISTS.iter().find_map(|kind| {
        let version = package.get(kind)?.get(PACKAGE)?.as_str()?;
        let version = version.trim().trim_start_matches('=');
        Version::parse(version).ok().map(|_| version.to_owned())
    })
}

/// Reads bun's lock file: `"packages": { "@cloudflare/sandbox": ["@cloudflare/sandbox@0.12.10", …] }`. A workspace
/// package with another version has its own key, which starts with its name.
fn read_bun_lock(lock: &Value, importer: &Importer) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(file: &str, text: &str) -> Result<Option<String>, Wrong> {
        version(file, text, &Importer { project: Path::new("/p"), root: Path::new("/p") })
    }

    fn find(file: &str, text: &str) -> Option<String> {
        read(file, text).unwrap()
    }

    #[test]
    fn only_exact_versions_of_a_package_json_count() {
        let version =
            |text: &str| exact_version(&serde_json::json!({ "devDependencies": { PACKAGE: text } }));
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
