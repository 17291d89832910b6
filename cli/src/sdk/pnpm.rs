//! `pnpm-lock.yaml`, of the formats 5 to 9.
#![allow(clippy::zero_sized_map_values, reason = "of a locked package, the key alone counts")]

use std::collections::BTreeMap;

use semver::Version;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::PACKAGE;
use super::pinned::{Importer, Wrong, only};

/// The parts of a lock file that tell a version.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Lock {
    /// Each package of a workspace, by its directory; what has no workspace may have none.
    importers: Option<BTreeMap<String, Imports>>,
    // The lists of the one package, where there are no importers.
    dependencies: Imported,
    #[serde(rename = "devDependencies")]
    dev_dependencies: Imported,
    #[serde(rename = "optionalDependencies")]
    optional_dependencies: Imported,
    packages: Option<BTreeMap<String, IgnoredAny>>,
    snapshots: Option<BTreeMap<String, IgnoredAny>>,
}

/// What a package imports.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Imports {
    dependencies: Imported,
    #[serde(rename = "devDependencies")]
    dev_dependencies: Imported,
    #[serde(rename = "optionalDependencies")]
    optional_dependencies: Imported,
}

/// Packages with their versions: as text in format 5, else as an object with `version`.
type Imported = Option<BTreeMap<String, Value>>;

/// The version of the nearest package that imports the SDK; else the only one there is.
pub(super) fn version(text: &str, importer: &Importer) -> Result<Option<String>, Wrong> {
    let locks = parse(text)?;
    let own = locks.iter().find_map(|lock| {
        let of = |imports: &Imports| {
            imported([&imports.dependencies, &imports.dev_dependencies, &imports.optional_dependencies])
        };
        match &lock.importers {
            Some(importers) => importer.dirs().find_map(|dir| importers.get(&dir).and_then(of)),
            None => imported([&lock.dependencies, &lock.dev_dependencies, &lock.optional_dependencies]),
        }
    });
    let keys = || locks.iter().flat_map(|lock| [&lock.packages, &lock.snapshots]).flatten();
    Ok(own.or_else(|| only(keys().flat_map(BTreeMap::keys).filter_map(|key| of_key(key)))))
}

/// A file may hold several documents: pnpm keeps what configures it in one of its own, in front.
fn parse(text: &str) -> Result<Vec<Lock>, Wrong> {
    // The budget guards against hostile input; this file is the user's own, and may be large.
    let options = serde_saphyr::options! { budget: None };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| wrong(text, &error))
}

/// What is wrong with a text that is not YAML.
pub(super) fn wrong(text: &str, error: &serde_saphyr::Error) -> Wrong {
    let at = error.location().and_then(|location| {
        let line = usize::try_from(location.line()).ok()?;
        Some(super::offset(text, line, usize::try_from(location.column()).ok()?))
    });
    let message = error.without_snippet().to_string();
    Wrong { format: "YAML", at, message: message.lines().next().map(str::to_owned) }
}

fn imported(lists: [&Imported; 3]) -> Option<String> {
    lists.into_iter().flatten().find_map(|list| {
        let entry = list.get(PACKAGE)?;
        plain(entry.as_str().or_else(|| entry.get("version")?.as_str())?)
    })
}

/// A version without the peers behind it: `(@xterm/xterm@5.5.0)`, in format 5 `_<hash>`.
fn plain(version: &str) -> Option<String> {
    let version = version.split(['(', '_']).next()?;
    Version::parse(version).ok().map(|_| version.to_owned())
}

/// The version in the key of a package: `@cloudflare/sandbox@0.12.10`, with a `/` in front before format 9, and another
/// before the version in format 5.
fn of_key(key: &str) -> Option<String> {
    let rest = key.trim_start_matches('/').strip_prefix(PACKAGE)?;
    plain(rest.strip_prefix(['@', '/'])?)
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
    fn the_importer_of_the_package_decides() {
        assert_eq!(of(NINE, "/w/apps/a").as_deref(), Some("0.12.2"));
        assert_eq!(of(NINE, "/w/apps/a/crates/worker").as_deref(), Some("0.12.2"));
        assert_eq!(of(NINE, "/w/apps/b").as_deref(), Some("0.12.3"));
        // These import none of the two, and nothing else says which is meant.
        for project in ["/w", "/w/apps/c", "/w/apps/linked"] {
            assert_eq!(of(NINE, project), None, "{project}");
        }
    }

    #[test]
    fn a_package_without_the_sdk_has_that_of_the_package_above() {
        let text = NINE
            .replace("  .:\n", "  .:\n    dependencies:\n      '@cloudflare/sandbox': {version: 0.12.1}\n");
        assert_eq!(of(&text, "/w/apps/c").as_deref(), Some("0.12.1"));
        assert_eq!(of(&text, "/w/apps/b").as_deref(), Some("0.12.3"));
    }

    #[test]
    fn older_formats() {
        let six = "lockfileVersion: '6.0'\ndependencies:\n  '@cloudflare/sandbox':\n    specifier: ^0.12.0\n    version: 0.12.4(ws@8)\npackages:\n  /@cloudflare/sandbox@0.12.4(ws@8):\n    dev: false\n  /@cloudflare/sandbox@0.11.0:\n    dev: true\n";
        assert_eq!(of(six, "/w").as_deref(), Some("0.12.4"));
        let five = "lockfileVersion: 5.4\nimporters:\n  apps/a:\n    specifiers:\n      '@cloudflare/sandbox': ^0.12.0\n    devDependencies:\n      '@cloudflare/sandbox': 0.12.5_ws@8\npackages:\n  /@cloudflare/sandbox/0.12.5_ws@8:\n    dev: true\n  /@cloudflare/sandbox/0.11.0:\n    dev: true\n";
        assert_eq!(of(five, "/w/apps/a").as_deref(), Some("0.12.5"));
    }

    #[test]
    fn what_configures_pnpm_is_a_document_of_its_own() {
        let text = format!("---\nlockfileVersion: env-1.0\nimporters:\n  .: {{}}\n---\n{NINE}");
        assert_eq!(of(&text, "/w/apps/b").as_deref(), Some("0.12.3"));
    }

    #[test]
    fn what_is_not_yaml_is_told() {
        let importer = Importer { project: Path::new("/w"), root: Path::new("/w") };
        let text = "a: 1\n<<<<<<< ours\nb: {\n";
        let wrong = version(text, &importer).unwrap_err();
        assert_eq!(wrong.format, "YAML");
        assert!(wrong.at.is_some_and(|at| (5..text.len() + 1).contains(&at)), "{wrong:?}");
    }
}
