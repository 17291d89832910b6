//! Exact versions in what package managers write: their lock files, and `package.json`.

use std::collections::BTreeSet;

use semver::Version;
use serde_json::Value;

use super::PACKAGE;
use crate::wrangler::document::{Document, Format};

/// The files that may pin a version, in the order they are asked in one directory.
pub(super) const FILES: [&str; 5] =
    ["package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "package.json"];

/// The version that a file pins, if it pins one.
///
/// # Errors
/// Where a file that should be JSON is not: the byte, and what is wrong.
pub(super) fn version(file: &str, text: &str) -> Result<Option<String>, (usize, String)> {
    Ok(match file {
        "package-lock.json" => locked(&json(text)?),
        "package.json" => exact(&json(text)?),
        "bun.lock" => bun(&jsonc(text)?),
        _ => only(text.lines().scan(false, |ours, line| Some(line_version(line, ours))).flatten()),
    })
}

/// JSON.
pub(super) fn json(text: &str) -> Result<Value, (usize, String)> {
    serde_json::from_str(text)
        .map_err(|error| (super::offset(text, error.line(), error.column()), error.to_string()))
}

/// JSON with the trailing commas that bun allows itself.
fn jsonc(text: &str) -> Result<Value, (usize, String)> {
    match Document::parse(Format::Jsonc, text) {
        Ok(document) => Ok(document.value().clone()),
        Err(error) => Err((error.range.start, error.message)),
    }
}

fn locked(lock: &Value) -> Option<String> {
    let entry = match lock.get("packages") {
        Some(packages) => packages.get(format!("node_modules/{PACKAGE}"))?,
        None => lock.get("dependencies")?.get(PACKAGE)?,
    };
    Some(entry.get("version")?.as_str()?.to_owned())
}

/// A version in `package.json` that is no range.
fn exact(package: &Value) -> Option<String> {
    ["dependencies", "devDependencies", "optionalDependencies"].iter().find_map(|kind| {
        let version = package.get(kind)?.get(PACKAGE)?.as_str()?;
        let version = version.trim().trim_start_matches('=');
        Version::parse(version).ok().map(|_| version.to_owned())
    })
}

/// `"packages": { "@cloudflare/sandbox": ["@cloudflare/sandbox@0.12.10", …] }`.
fn bun(lock: &Value) -> Option<String> {
    let entry = lock.get("packages")?.get(PACKAGE)?.get(0)?.as_str()?;
    let version = entry.strip_prefix(PACKAGE)?.strip_prefix('@')?;
    Version::parse(version).ok().map(|_| version.to_owned())
}

/// A version that a line of `yarn.lock` or `pnpm-lock.yaml` tells; `ours` says whether the lines are an entry of ours.
///
/// yarn writes `"@cloudflare/sandbox@^0.12.0":` and, indented below it, `version "0.12.10"` or `version: 0.12.10`;
/// pnpm has the version in the key, `'@cloudflare/sandbox@0.12.10':`, with peers in parentheses or `_` behind it.
fn line_version(line: &str, ours: &mut bool) -> Option<String> {
    let text = line.trim().trim_start_matches(['"', '\'', '/']);
    if let Some(rest) = text.strip_prefix(PACKAGE)
        && rest.starts_with(['@', '/'])
    {
        *ours = true;
        let version: String = rest[1..]
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+'))
            .collect();
        let ends = rest[1 + version.len()..].starts_with(['\'', ':', '(', '_']);
        return Version::parse(&version).ok().filter(|_| ends).map(|_| version);
    }
    let version = text.strip_prefix("version").filter(|_| *ours && line.starts_with(' '))?;
    *ours = false;
    let version = version.trim_start_matches(':').trim().trim_matches('"');
    Version::parse(version).ok().map(|_| version.to_owned())
}

/// The one version; where a workspace has several, none of them is the answer.
fn only(versions: impl Iterator<Item = String>) -> Option<String> {
    let versions: BTreeSet<String> = versions.collect();
    let mut versions = versions.into_iter();
    versions.next().filter(|_| versions.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(file: &str, text: &str) -> Option<String> {
        version(file, text).unwrap()
    }

    #[test]
    fn only_exact_versions_of_a_package_json_answer() {
        let version = |text: &str| exact(&serde_json::json!({ "devDependencies": { PACKAGE: text } }));
        assert_eq!(version("0.12.10").as_deref(), Some("0.12.10"));
        assert_eq!(version("=0.12.10").as_deref(), Some("0.12.10"));
        for range in ["^0.12.10", "~0.12", "0.12", "latest", "*", ">=0.12.0", "workspace:*", ""] {
            assert_eq!(version(range), None, "{range}");
        }
    }

    #[test]
    fn every_lock_file_answers() {
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
    fn what_does_not_pin_one_version_does_not_answer() {
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
    fn what_is_not_json_is_told() {
        assert_eq!(version("package.json", "{,}").unwrap_err().0, 1);
        assert_eq!(version("bun.lock", "{,}").unwrap_err().0, 1);
    }
}
