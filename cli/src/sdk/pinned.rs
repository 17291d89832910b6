//! Exact versions in `package-lock.json` and `package.json`.

use std::path::Path;

use semver::Version;
use serde_json::Value;

use super::PACKAGE;
use crate::paths;

/// The files that may pin a version, in the order of precedence within a directory.
///
/// Other package managers' lock files are not read: after an installation, `node_modules` has the version.
pub(super) const FILES: [&str; 2] = [LOCK, "package.json"];

const LOCK: &str = "package-lock.json";

/// The dependency lists of a `package.json`.
const LISTS: [&str; 3] = ["dependencies", "devDependencies", "optionalDependencies"];

/// Returns the version that a file in `dir` pins for the project, if any.
pub(super) fn version(file: &str, json: &Value, project: &Path, dir: &Path) -> Option<String> {
    if file == LOCK { read_lock(json, project, dir) } else { exact_version(json) }
}

/// Reads npm's lock file, which has an entry for each installed directory. The nearest one in which Node finds the SDK
/// counts.
fn read_lock(lock: &Value, project: &Path, root: &Path) -> Option<String> {
    let Some(packages) = lock.get("packages") else {
        return Some(lock.get("dependencies")?.get(PACKAGE)?.get("version")?.as_str()?.to_owned());
    };
    project.ancestors().take_while(|dir| dir.starts_with(root)).find_map(|dir| {
        let installed = dir.join("node_modules").join(PACKAGE);
        let entry = packages.get(paths::relative(&installed, root))?;
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_exact_versions_of_a_package_json_count() {
        let version = |text: &str| exact_version(&json!({ "devDependencies": { PACKAGE: text } }));
        assert_eq!(version("0.12.10").as_deref(), Some("0.12.10"));
        assert_eq!(version("=0.12.10").as_deref(), Some("0.12.10"));
        for range in ["^0.12.10", "~0.12", "0.12", "latest", "*", ">=0.12.0", "catalog:", "workspace:*", ""] {
            assert_eq!(version(range), None, "{range}");
        }
    }

    #[test]
    fn a_lock_file_without_the_sdk_pins_nothing() {
        assert_eq!(version(LOCK, &json!({}), Path::new("/w"), Path::new("/w")), None);
        assert_eq!(version(LOCK, &json!({ "packages": {} }), Path::new("/w"), Path::new("/w")), None);
    }

    #[test]
    fn the_nearest_version_counts() {
        let lock = json!({ "packages": {
            "node_modules/@cloudflare/sandbox": { "version": "0.12.1" },
            "apps/a/node_modules/@cloudflare/sandbox": { "version": "0.12.2" },
            "apps/link/node_modules/@cloudflare/sandbox": { "link": true },
        } });
        let old = json!({ "dependencies": { PACKAGE: { "version": "0.12.1" } } });
        for (lock, project, expected) in [
            (&lock, "/w/apps/a", "0.12.2"),
            (&lock, "/w/apps/a/worker", "0.12.2"),
            (&lock, "/w/apps/b", "0.12.1"),
            (&lock, "/w/apps/link", "0.12.1"),
            (&lock, "/w", "0.12.1"),
            (&old, "/w", "0.12.1"),
        ] {
            let found = version(LOCK, lock, Path::new(project), Path::new("/w"));
            assert_eq!(found.as_deref(), Some(expected), "{project}");
        }
    }
}
