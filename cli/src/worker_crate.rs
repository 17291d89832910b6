//! Checks the project's version of the crate `worker` against the one that the generated code needs.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use semver::{Version, VersionReq};
use toml_edit::{Document, Item};

use crate::discover::Project;
use crate::draft::Draft;
use crate::finding::Place;
use crate::paths;
use crate::rules::Rule;
use crate::source::split_mark;
use crate::write::input;

/// The version that the crate `koze` and the generated code depend on.
pub const NEEDED: &str = "0.8.7";

const NAME: &str = "worker";

/// The crates that are released together with it under the same version.
const FAMILY: [&str; 3] = [NAME, "worker-macros", "worker-sys"];

/// The project's dependency on the crate `worker`.
#[derive(Debug)]
pub struct WorkerCrate {
    /// The locked version, or the requirement in `Cargo.toml` if none is locked yet.
    pub found: String,
    /// The file that determines it.
    pub source: String,
    /// Whether the generated code compiles with it.
    pub fits: bool,
    /// Whether it is older than the needed version.
    old: bool,
    /// The manifest with the requirement, relative to the package.
    manifest: String,
    /// The location of the requirement.
    place: Place,
}

impl WorkerCrate {
    /// Finds the dependency in the manifest, as the draft leaves it.
    pub fn find(project: &Project, draft: &Draft) -> Option<Self> {
        let path = project.dir.join("Cargo.toml");
        let drafted = draft.file(&path).flatten().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let text = drafted.or_else(|| input::read_text_in(&project.dir, &path).ok())?;
        let document: Document<&str> = Document::parse(without_mark(&text)).ok()?;
        let (key, item) = first_declared(&document, NAME)?;
        let asked = if is_inherited(item) {
            workspace_requirement(key, project).unwrap_or(Asked {
                path,
                text: text.clone(),
                range: item.span(),
                version: None,
            })
        } else {
            let (version, range) = read_version(item);
            Asked { path, text: text.clone(), range: range.or(item.span()), version }
        };
        Self::from_asked(project, &asked)
    }

    fn from_asked(project: &Project, asked: &Asked) -> Option<Self> {
        let manifest = paths::relative(&asked.path, &project.dir);
        let text = Arc::from(without_mark(&asked.text));
        let place = Place { file: manifest.clone(), text, range: asked.range.clone() };
        let made = |found: String, source: String, fits, old| {
            Some(WorkerCrate { found, source, fits, old, manifest: manifest.clone(), place: place.clone() })
        };
        let request = asked.version.as_deref().and_then(|version| VersionReq::parse(version).ok());
        // The requirement alone may decide, so that the lock file need not be read.
        if let (Some(request), Some(text)) = (&request, &asked.version)
            && !admits_others(request)
        {
            return made(text.clone(), manifest.clone(), true, false);
        }
        // Ignore a lock file that is older than the manifest: cargo is about to replace it.
        let locked = locked_version(project);
        let locked =
            locked.filter(|(version, _)| request.as_ref().is_none_or(|request| request.matches(version)));
        let needed = needed_version();
        match (locked, &request, &asked.version) {
            (Some((version, file)), ..) => {
                let fits = is_of_line(&version) && request.as_ref().is_none_or(has_fitting_version);
                let old = version < needed;
                made(version.to_string(), paths::relative(&file, &project.dir), fits, old)
            }
            (None, Some(request), Some(text)) => {
                let old = !boundary_versions(request)
                    .iter()
                    .any(|version| *version >= needed && request.matches(version));
                made(text.clone(), manifest.clone(), has_fitting_version(request), old)
            }
            _ => None,
        }
    }

    /// Returns the finding if the version does not fit.
    pub fn finding(&self) -> Option<(Rule, Place)> {
        let (found, source, manifest) = (&self.found, &self.source, &self.manifest);
        let edit = if self.old {
            let command =
                if manifest == "Cargo.toml" { ", by hand or with `koze init --raise-worker`" } else { "" };
            format!("raise it to \"{NEEDED}\" in {manifest}{command}; your own code may need changes")
        } else {
            format!("require \"{NEEDED}\" in {manifest}, or install a newer koze")
        };
        let rule = Rule::WorkerCrate { found: found.clone(), source: source.clone(), needed: NEEDED, edit };
        (!self.fits).then(|| (rule, self.place.clone()))
    }
}

/// Raises older requirements for the crate and its companions to the needed version, and keeps all other bytes.
pub fn raised(text: &str) -> String {
    let body = without_mark(text);
    let mark = text.len() - body.len();
    let Ok(document) = Document::parse(body) else { return text.to_owned() };
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for name in FAMILY {
        for (_, item) in all_declared(&document, name) {
            let (Some(asked), Some(range)) = read_version(item) else { continue };
            let request = VersionReq::parse(&asked);
            let needed = needed_version();
            let is_old = |request: &VersionReq| {
                !boundary_versions(request).iter().any(|v| *v >= needed && request.matches(v))
            };
            // A range that also admits the needed version, such as `*`, has to be narrowed, too.
            if request.is_ok_and(|request| {
                is_old(&request) || (admits_others(&request) && request.matches(&needed))
            }) {
                ranges.push(range);
            }
        }
    }
    ranges.sort_by_key(|range| std::cmp::Reverse(range.start));
    let mut raised = text.to_owned();
    for range in ranges {
        raised.replace_range(range.start + mark..range.end + mark, &format!("\"{NEEDED}\""));
    }
    raised
}

/// The requirement in a manifest.
struct Asked {
    path: PathBuf,
    text: String,
    range: Option<Range<usize>>,
    version: Option<String>,
}

fn needed_version() -> Version {
    Version::parse(NEEDED).expect("a version")
}

/// Returns whether cargo can choose a compatible version in place of this one: it unifies all semver-compatible
/// versions.
fn is_of_line(version: &Version) -> bool {
    let needed = needed_version();
    (version.major, version.minor) == (needed.major, needed.minor)
}

/// Returns the versions at the boundaries of a requirement.
fn boundary_versions(request: &VersionReq) -> Vec<Version> {
    let mut all = vec![
        needed_version(),
        Version::new(needed_version().major, needed_version().minor, u64::MAX),
        Version::new(u64::MAX, 0, 0),
    ];
    for comparator in &request.comparators {
        let (minor, patch) = (comparator.minor.unwrap_or(0), comparator.patch.unwrap_or(0));
        all.push(Version::new(comparator.major, minor, patch));
        all.push(Version::new(comparator.major, minor, u64::MAX));
    }
    all
}

/// Returns whether a requirement admits a version that the generated code compiles with.
fn has_fitting_version(request: &VersionReq) -> bool {
    let fits =
        |version: &Version| is_of_line(version) && *version >= needed_version() && request.matches(version);
    boundary_versions(request).iter().any(fits)
}

/// Returns whether a requirement admits a version that the generated code does not compile with.
fn admits_others(request: &VersionReq) -> bool {
    let line = VersionReq::parse(&format!("^{}.{}", needed_version().major, needed_version().minor))
        .expect("a request");
    let inside = request.comparators.iter().any(|comparator| {
        use semver::Op::{Caret, Exact, Tilde, Wildcard};
        let bound = matches!(comparator.op, Caret | Exact | Tilde | Wildcard) && comparator.minor.is_some();
        let first =
            Version::new(comparator.major, comparator.minor.unwrap_or(0), comparator.patch.unwrap_or(0));
        bound && line.matches(&first)
    });
    !(inside && has_fitting_version(request))
}

/// Returns all declarations of a dependency, for every target or for some.
pub(crate) fn all_declared<'d>(document: &'d Document<&str>, name: &str) -> Vec<(&'d str, &'d Item)> {
    let targets = document.get("target").and_then(Item::as_table_like);
    let targets = targets
        .into_iter()
        .flat_map(|targets| targets.iter().filter_map(|(_, target)| target.get("dependencies")));
    let lists = document.get("dependencies").into_iter().chain(targets);
    let entries = lists.filter_map(Item::as_table_like).flat_map(|list| list.iter());
    entries.filter(|(key, item)| item.get("package").and_then(Item::as_str).unwrap_or(key) == name).collect()
}

fn first_declared<'d>(document: &'d Document<&str>, name: &str) -> Option<(&'d str, &'d Item)> {
    all_declared(document, name).into_iter().next()
}

/// Returns the version in a dependency and its range.
fn read_version(item: &Item) -> (Option<String>, Option<Range<usize>>) {
    let own = if item.is_str() { Some(item) } else { item.get("version") };
    let text = own.and_then(Item::as_str).map(str::to_owned);
    (text, own.and_then(Item::span))
}

/// Returns whether a dependency is that of the workspace.
pub(crate) fn is_inherited(item: &Item) -> bool {
    item.get("workspace").and_then(Item::as_bool) == Some(true)
}

/// Returns the requirement of the surrounding workspace.
fn workspace_requirement(key: &str, project: &Project) -> Option<Asked> {
    let (path, text) = workspace(project)?;
    let document = Document::parse(without_mark(&text)).ok()?;
    let item = document.get("workspace")?.get("dependencies")?.get(key)?;
    let (version, range) = read_version(item);
    let range = range.or(item.span());
    Some(Asked { path, range, version, text: text.clone() })
}

/// Returns the manifest of the surrounding workspace: its path and its text.
pub(crate) fn workspace(project: &Project) -> Option<(PathBuf, String)> {
    project.dir.ancestors().find_map(|dir| {
        let path = dir.join("Cargo.toml");
        let text = input::read_text_in(dir, &path).ok()?;
        let is_root = Document::parse(without_mark(&text)).ok()?.contains_key("workspace");
        is_root.then_some((path, text))
    })
}

/// Returns the version that the project's `Cargo.lock` contains, and the file.
fn locked_version(project: &Project) -> Option<(Version, PathBuf)> {
    let path = project.dir.ancestors().map(|dir| dir.join("Cargo.lock")).find(|path| path.is_file())?;
    let text = input::read_text(&path).ok()?;
    let version = dependency_version(&text, &project.name)?;
    Some((version, path))
}

/// Returns the locked version that a package depends on. Other packages of the graph may use different ones.
fn dependency_version(lock: &str, package: &str) -> Option<Version> {
    let document = Document::parse(lock).ok()?;
    let packages = document.get("package")?.as_array_of_tables()?;
    let text = |table: &toml_edit::Table, key: &str| Some(table.get(key)?.as_str()?.to_owned());
    let own = packages
        .iter()
        .find(|table| text(table, "name").as_deref() == Some(package) && !table.contains_key("source"))?;
    let dependencies = own.get("dependencies")?.as_array()?;
    // `worker`, or `worker 0.8.7` if the graph has several versions.
    let mut named = dependencies.iter().filter_map(|dependency| dependency.as_str());
    let words: Vec<&str> = named.find(|text| text.split(' ').next() == Some(NAME))?.split(' ').collect();
    if let Some(version) = words.get(1) {
        return Version::parse(version).ok();
    }
    let only = packages.iter().find(|table| text(table, "name").as_deref() == Some(NAME))?;
    Version::parse(&text(only, "version")?).ok()
}

fn without_mark(text: &str) -> &str {
    split_mark(text).1
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_needed_version_is_that_of_this_workspace() {
        let manifest =
            fs_err::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml")).unwrap();
        let document = Document::parse(manifest.as_str()).unwrap();
        assert_eq!(document["workspace"]["dependencies"][NAME].as_str(), Some(NEEDED));
    }

    #[test]
    fn compatible_requirements_are_recognized() {
        for (request, fits, decides) in [
            ("0.8", true, true),
            ("0.8.7", true, true),
            ("^0.8.1", true, true),
            ("~0.8", true, true),
            ("0.8.*", true, true),
            ("=0.8.9", true, true),
            ("0.8.12", true, true),
            ("*", true, false),
            (">=0.4", true, false),
            (">=0.4, <0.9", true, false),
            ("0.6", false, false),
            ("0.4.2", false, false),
            ("=0.8.3", false, false),
            ("<0.8", false, false),
            ("0.9", false, false),
            ("1", false, false),
        ] {
            let request = VersionReq::parse(request).unwrap();
            assert_eq!(
                (has_fitting_version(&request), !admits_others(&request)),
                (fits, decides),
                "{request}"
            );
        }
    }

    #[test]
    fn the_lock_file_determines_the_version() {
        let lock = |dependencies: &str| {
            format!(
                "version = 4\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\ndependencies = [{dependencies}]\n\n[[package]]\nname = \"worker\"\nversion = \"0.6.7\"\nsource = \"registry\"\n\n[[package]]\nname = \"worker\"\nversion = \"0.8.7\"\nsource = \"registry\"\n"
            )
        };
        let version = |dependencies: &str| {
            dependency_version(&lock(dependencies), "app").map(|version| version.to_string())
        };
        assert_eq!(version("\"koze\", \"worker 0.6.7\"").as_deref(), Some("0.6.7"));
        assert_eq!(version("\"worker 0.8.7 (registry+x)\"").as_deref(), Some("0.8.7"));
        assert_eq!(version("\"worker-macros\""), None);
        assert_eq!(dependency_version("", "app"), None);
    }

    #[test]
    fn only_older_requirements_are_raised() {
        let text = "\u{feff}[package]\r\nname = \"worker\"\r\n\r\n[dependencies]\r\nworker = { version='0.6', features=[\"d1\"] } # kept\r\nworker-macros.version = \"0.6.1\"\r\nw = { package = \"worker\", version = \"0.4\" }\r\nworker-kv = \"0.6\"\r\n\r\n[target.'cfg(unix)'.dependencies.worker-sys]\r\nversion = \"*\"\r\n";
        let expected = text
            .replace("'0.6'", "\"0.8.7\"")
            .replace("\"0.6.1\"", "\"0.8.7\"")
            .replace("\"0.4\"", "\"0.8.7\"")
            .replace("\"*\"", "\"0.8.7\"");
        assert_eq!(raised(text), expected);
        for same in ["[dependencies]\nworker = \"0.8\"\n", "[dependencies]\nworker = \"0.9\"\n", "[", ""] {
            assert_eq!(raised(same), same);
        }
    }
}
