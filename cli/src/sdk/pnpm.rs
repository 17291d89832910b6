//! `pnpm-lock.yaml`, of the formats 5 to 9.
#![allow(clippy::zero_sized_map_values, reason = "of a locked package, the key alone counts")]

use std::collections::BTreeMap;

use semver::Version;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::PACKAGE;
use super::importer::{Importer, Wrong, only};

/// The parts of a lock file that determine a version.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Lock {
    /// The packages of a workspace, by directory. Lock files without a workspace may have none.
    importers: Option<BTreeMap<String, Imports>>,
    // The lists of the only package if there are no importers.
    dependencies: Imported,
    #[serde(rename = "devDependencies")]
    dev_dependencies: Imported,
    #[serde(rename = "optionalDependencies")]
    optional_dependencies: Imported,
    packages: Option<BTreeMap<String, IgnoredAny>>,
    snapshots: Option<BTreeMap<String, IgnoredAny>>,
}

/// The dependency lists of a package.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Imports {
    dependencies: Imported,
    #[serde(rename = "devDependencies")]
    dev_dependencies: Imported,
    #[serde(rename = "optionalDependencies")]
    optional_dependencies: Imported,
}

/// Packages with their versions: strings in format 5, otherwise objects with `version`.
type Imported = Option<BTreeMap<String, Value>>;

/// Returns the version of the nearest package that imports the SDK, or the only version in the file.
pub(super) fn version(text: &str, importer: &Importer) -> Result<Option<String>, Wrong> {
    let locks = parse_documents(text)?;
    let own = locks.iter().find_map(|lock| {
        let of = |imports: &Imports| {
            imported_version([
                &imports.dependencies,
                &imports.dev_dependencies,
                &imports.optional_dependencies,
            ])
        };
        match &lock.importers {
            Some(importers) => importer.dirs().find_map(|dir| importers.get(&dir).and_then(of)),
            None => {
                imported_version([&lock.dependencies, &lock.dev_dependencies, &lock.optional_dependencies])
            }
        }
    });
    let keys = || locks.iter().flat_map(|lock| [&lock.packages, &lock.snapshots]).flatten();
    Ok(own.or_else(|| only(keys().flat_map(BTreeMap::keys).filter_map(|key| of_key(key)))))
}

/// Parses the YAML documents of a file. pnpm puts its own configuration dependencies in a separate document at the top.
fn parse_documents(text: &str) -> Result<Vec<Lock>, Wrong> {
    // The budget is for hostile input. This file is the user's own and may be large.
    let options = serde_saphyr::options! { budget: None };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| wrong(text, &error))
}

/// Converts a YAML error.
pub(super) fn wrong(text: &str, error: &serde_saphyr::Error) -> Wrong {
    let at = error.location().and_then(|location| {
        let line = usize::try_from(location.line()).ok()?;
        Some(super::byte_offset(text, line, usize::try_from(location.column()).ok()?))
    });
    let message = error.without_snippet().to_string();
    Wrong { format: "YAML", at, message: message.lines().next().map(str::to_owned) }
}

fn imported_version(lists: [&Imported; 3]) -> Option<String> {
    lists.into_iter().flatten().find_map(|list| {
        let entry = list.get(PACKAGE)?;
        strip_peers(entry.as_str().or_else(|| entry.get("version")?.as_str())?)
    })
}

/// Strips the peer dependencies from a version: `(@xterm/xterm@5.5.0)`, or `_<hash>` in format 5.
fn strip_peers(version: &str) -> Option<String> {
    let version = version.split(['(', '_']).next()?;
    Version::parse(version).ok().map(|_| version.to_owned())
}

/// Returns the version in a package's key: `@cloudflare/sandbox@0.12.10`, with a leading `/` before format 9, and with
/// a `/` instead of the second `@` in format 5.
fn of_key(key: &str) -> Option<String> {
    let rest = key.trim_start_matches('/').strip_prefix(PACKAGE)?;
    strip_peers(rest.strip_prefix(['@', '/'])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn of(text: &str, project: &str) -> Option<String> {
        version(text, &Importer { project: Path::new(project), root: Path::new("/w") }).unwrap()
    }

    const NINE: &str = "lockfileVersion: '9.0'

settings:
  autoInstallPeers: true

importers:

  .:
    devDependencies:
      wrangler:
        specifier: ^4.0.0
        version: 4.164.0

  apps/a:
    dependencies:
      '@cloudflare/sandbox':
        specifier: ^0.12.0
        version: 0.12.2(@xterm/xterm@5.5.0)

  apps/b:
    optionalDependencies:
      \"@cloudflare/sandbox\": { specifier: 'catalog:', version: 0.12.3 }

  apps/linked:
    dependencies:
      '@cloudflare/sandbox':
        specifier: workspace:*
        version: link:../../packages/sandbox

packages:

  '@cloudflare/sandbox@0.12.2':
    resolution: {integrity: sha512-x}

  ? '@cloudflare/sandbox@0.12.3'
  : resolution: {integrity: sha512-y}

snapshots:

  '@cloudflare/sandbox@0.12.2(@xterm/xterm@5.5.0)': {}

  '@cloudflare/sandbox@0.12.3': {}
";

    #[test]
    fn the_importer_of_the_package_counts() {
        assert_eq!(of(NINE, "/w/apps/a").as_deref(), Some("0.12.2"));
        assert_eq!(of(NINE, "/w/apps/a/crates/worker").as_deref(), Some("0.12.2"));
        assert_eq!(of(NINE, "/w/apps/b").as_deref(), Some("0.12.3"));
        // These import neither version, so the file is ambiguous.
        for project in ["/w", "/w/apps/c", "/w/apps/linked"] {
            assert_eq!(of(NINE, project), None, "{project}");
        }
    }

    #[test]
    fn a_package_without_the_sdk_inherits_that_of_the_parent() {
        let text = NINE
            .replace("  .:\n", "  .:\n    dependencies:\n      '@cloudflare/sandbox': {version: 0.12.1}\n");
        assert_eq!(of(&text, "/w/apps/c").as_deref(), Some("0.12.1"));
        assert_eq!(of(&text, "/w/apps/b").as_deref(), Some("0.12.3"));
    }

    #[test]
    fn older_formats_are_read() {
        let six = "lockfileVersion: '6.0'\ndependencies:\n  '@cloudflare/sandbox':\n    specifier: ^0.12.0\n    version: 0.12.4(ws@8)\npackages:\n  /@cloudflare/sandbox@0.12.4(ws@8):\n    dev: false\n  /@cloudflare/sandbox@0.11.0:\n    dev: true\n";
        assert_eq!(of(six, "/w").as_deref(), Some("0.12.4"));
        let five = "lockfileVersion: 5.4\nimporters:\n  apps/a:\n    specifiers:\n      '@cloudflare/sandbox': ^0.12.0\n    devDependencies:\n      '@cloudflare/sandbox': 0.12.5_ws@8\npackages:\n  /@cloudflare/sandbox/0.12.5_ws@8:\n    dev: true\n  /@cloudflare/sandbox/0.11.0:\n    dev: true\n";
        assert_eq!(of(five, "/w/apps/a").as_deref(), Some("0.12.5"));
    }

    #[test]
    fn the_configuration_document_is_skipped() {
        let text = format!("---\nlockfileVersion: env-1.0\nimporters:\n  .: {{}}\n---\n{NINE}");
        assert_eq!(of(&text, "/w/apps/b").as_deref(), Some("0.12.3"));
    }

    #[test]
    fn invalid_yaml_is_reported() {
        let importer = Importer { project: Path::new("/w"), root: Path::new("/w") };
        let text = "a: 1\n<<<<<<< ours\nb: {\n";
        let wrong = version(text, &importer).unwrap_err();
        assert_eq!(wrong.format, "YAML");
        assert!(wrong.at.is_some_and(|at| (5..text.len() + 1).contains(&at)), "{wrong:?}");
    }
}
