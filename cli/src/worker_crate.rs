//! The crate `worker` of a project: which version it has, and which one the generated code compiles with.

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

/// The version that the crate `koze` depends on, and with it the generated code.
pub const NEEDED: &str = "0.8.7";

const NAME: &str = "worker";

/// The crates that are released with it, under the same version.
const FAMILY: [&str; 3] = [NAME, "worker-macros", "worker-sys"];

/// The crate `worker` of a project, where it has one and something says its version.
#[derive(Debug)]
pub struct WorkerCrate {
    /// The version, or what `Cargo.toml` asks for where none is chosen yet.
    pub found: String,
    /// The file that says so.
    pub source: String,
    /// Whether the generated code compiles with it.
    pub fits: bool,
    /// Whether it is older than that.
    old: bool,
    /// The manifest that asks for it, relative to the package.
    manifest: String,
    /// Where.
    place: Place,
}

impl WorkerCrate {
    /// The one of a project, with the manifest as it is to be.
    pub fn find(project: &Project, draft: &Draft) -> Option<Self> {
        let path = project.dir.join("Cargo.toml");
        let drafted = draft.file(&path).flatten().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let text = drafted.or_else(|| fs_err::read_to_string(&path).ok())?;
        let document: Document<&str> = Document::parse(without_mark(&text)).ok()?;
        let (key, item) = declared(&document, NAME)?;
        let asked = if is_inherited(item) {
            inherited(key, project).unwrap_or(Asked {
                path,
                text: text.clone(),
                range: item.span(),
                version: None,
            })
        } else {
            let (version, range) = version(item);
            Asked { path, text: text.clone(), range: range.or(item.span()), version }
        };
        Self::of(project, &asked)
    }

    fn of(project: &Project, asked: &Asked) -> Option<Self> {
        let manifest = paths::relative(&asked.path, &project.dir);
        let text = Arc::from(without_mark(&asked.text));
        let place = Place { file: manifest.clone(), text, range: asked.range.clone() };
        let made = |found: String, source: String, fits, old| {
            Some(WorkerCrate { found, source, fits, old, manifest: manifest.clone(), place: place.clone() })
        };
        let request = asked.version.as_deref().and_then(|version| VersionReq::parse(version).ok());
        // What is asked for may decide by itself; only then the lock file need not be read.
        if let (Some(request), Some(text)) = (&request, &asked.version)
            && !admits_others(request)
        {
            return made(text.clone(), manifest.clone(), true, false);
        }
        // Ignore a lock file that is older than the manifest: cargo is about to replace it.
        let locked = locked(project);
        let locked =
            locked.filter(|(version, _)| request.as_ref().is_none_or(|request| request.matches(version)));
        let needed = needed();
        match (locked, &request, &asked.version) {
            (Some((version, file)), ..) => {
                let fits = is_of_line(&version) && request.as_ref().is_none_or(admits);
                let old = version < needed;
                made(version.to_string(), paths::relative(&file, &project.dir), fits, old)
            }
            (None, Some(request), Some(text)) => {
                let old =
                    !candidates(request).iter().any(|version| *version >= needed && request.matches(version));
                made(text.clone(), manifest.clone(), admits(request), old)
            }
            _ => None,
        }
    }

    /// What is wrong with it.
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

/// A manifest that asks for the needed version of the crate and of those that belong to it, wherever it asks for an
/// older one; no other byte moves.
pub fn raised(text: &str) -> String {
    let body = without_mark(text);
    let mark = text.len() - body.len();
    let Ok(document) = Document::parse(body) else { return text.to_owned() };
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for name in FAMILY {
        for (_, item) in all_declared(&document, name) {
            let (Some(asked), Some(range)) = version(item) else { continue };
            let request = VersionReq::parse(&asked);
            let needed = needed();
            let is_old = |request: &VersionReq| {
                !candidates(request).iter().any(|v| *v >= needed && request.matches(v))
            };
            // A range that goes on to what is needed, such as `*`, has to be narrowed, too.
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

/// What a manifest asks for.
struct Asked {
    path: PathBuf,
    text: String,
    range: Option<Range<usize>>,
    version: Option<String>,
}

fn needed() -> Version {
    Version::parse(NEEDED).expect("a version")
}

/// Whether cargo can choose a version that the generated code compiles with in place of this one: it takes one crate for
/// all versions that begin alike.
fn is_of_line(version: &Version) -> bool {
    let needed = needed();
    (version.major, version.minor) == (needed.major, needed.minor)
}

/// The versions among which a request decides.
fn candidates(request: &VersionReq) -> Vec<Version> {
    let mut all =
        vec![needed(), Version::new(needed().major, needed().minor, u64::MAX), Version::new(u64::MAX, 0, 0)];
    for comparator in &request.comparators {
        let (minor, patch) = (comparator.minor.unwrap_or(0), comparator.patch.unwrap_or(0));
        all.push(Version::new(comparator.major, minor, patch));
        all.push(Version::new(comparator.major, minor, u64::MAX));
    }
    all
}

/// Whether a request admits a version that the generated code compiles with.
fn admits(request: &VersionReq) -> bool {
    let fits = |version: &Version| is_of_line(version) && *version >= needed() && request.matches(version);
    candidates(request).iter().any(fits)
}

/// Whether a request admits versions that the generated code does not compile with.
fn admits_others(request: &VersionReq) -> bool {
    let line = VersionReq::parse(&format!("^{}.{}", needed().major, needed().minor)).expect("a request");
    let inside = request.comparators.iter().any(|comparator| {
        use semver::Op::{Caret, Exact, Tilde, Wildcard};
        let bound = matches!(comparator.op, Caret | Exact | Tilde | Wildcard) && comparator.minor.is_some();
        let first =
            Version::new(comparator.major, comparator.minor.unwrap_or(0), comparator.patch.unwrap_or(0));
        bound && line.matches(&first)
    });
    !(inside && admits(request))
}

/// What a manifest asks for under `dependencies`, for every target or for some.
fn all_declared<'d>(document: &'d Document<&str>, name: &str) -> Vec<(&'d str, &'d Item)> {
    let targets = document.get("target").and_then(Item::as_table_like);
    let targets = targets
        .into_iter()
        .flat_map(|targets| targets.iter().filter_map(|(_, target)| target.get("dependencies")));
    let lists = document.get("dependencies").into_iter().chain(targets);
    let entries = lists.filter_map(Item::as_table_like).flat_map(|list| list.iter());
    entries.filter(|(key, item)| item.get("package").and_then(Item::as_str).unwrap_or(key) == name).collect()
}

fn declared<'d>(document: &'d Document<&str>, name: &str) -> Option<(&'d str, &'d Item)> {
    all_declared(document, name).into_iter().next()
}

/// The version in a dependency, and where it stands.
fn version(item: &Item) -> (Option<String>, Option<Range<usize>>) {
    let own = if item.is_str() { Some(item) } else { item.get("version") };
    let text = own.and_then(Item::as_str).map(str::to_owned);
    (text, own.and_then(Item::span))
}

fn is_inherited(item: &Item) -> bool {
    item.get("workspace").and_then(Item::as_bool) == Some(true)
}

/// What the workspace around a project asks for.
fn inherited(key: &str, project: &Project) -> Option<Asked> {
    for dir in project.dir.ancestors() {
        let path = dir.join("Cargo.toml");
        let Ok(text) = fs_err::read_to_string(&path) else { continue };
        let Ok(document) = Document::parse(without_mark(&text)) else { continue };
        if let Some(workspace) = document.get("workspace") {
            let item = workspace.get("dependencies")?.get(key)?;
            let (version, range) = version(item);
            let range = range.or(item.span());
            return Some(Asked { path, range, version, text: text.clone() });
        }
    }
    None
}

/// The version that a `Cargo.lock` has chosen for a project, and the file.
fn locked(project: &Project) -> Option<(Version, PathBuf)> {
    let path = project.dir.ancestors().map(|dir| dir.join("Cargo.lock")).find(|path| path.is_file())?;
    let text = fs_err::read_to_string(&path).ok()?;
    let version = chosen(&text, &project.name)?;
    Some((version, path))
}

/// The version of the crate that a package depends on. Others of the same graph may have other ones.
fn chosen(lock: &str, package: &str) -> Option<Version> {
    let document = Document::parse(lock).ok()?;
    let packages = document.get("package")?.as_array_of_tables()?;
    let text = |table: &toml_edit::Table, key: &str| Some(table.get(key)?.as_str()?.to_owned());
    let own = packages
        .iter()
        .find(|table| text(table, "name").as_deref() == Some(package) && !table.contains_key("source"))?;
    let dependencies = own.get("dependencies")?.as_array()?;
    // `worker`, or with its version where the graph has several: `worker 0.8.7`.
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
    fn it_is_the_version_that_this_workspace_builds_with() {
        let manifest =
            fs_err::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml")).unwrap();
        let document = Document::parse(manifest.as_str()).unwrap();
        assert_eq!(document["workspace"]["dependencies"][NAME].as_str(), Some(NEEDED));
    }

    #[test]
    fn requests_that_fit() {
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
            assert_eq!((admits(&request), !admits_others(&request)), (fits, decides), "{request}");
        }
    }

    #[test]
    fn the_lock_file_says_which_one_the_package_has() {
        let lock = |dependencies: &str| {
            format!(
                "version = 4\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\ndependencies = [{dependencies}]\n\n[[package]]\nname = \"worker\"\nversion = \"0.6.7\"\nsource = \"registry\"\n\n[[package]]\nname = \"worker\"\nversion = \"0.8.7\"\nsource = \"registry\"\n"
            )
        };
        let version =
            |dependencies: &str| chosen(&lock(dependencies), "app").map(|version| version.to_string());
        assert_eq!(version("\"koze\", \"worker 0.6.7\"").as_deref(), Some("0.6.7"));
        assert_eq!(version("\"worker 0.8.7 (registry+x)\"").as_deref(), Some("0.8.7"));
        assert_eq!(version("\"worker-macros\""), None);
        assert_eq!(chosen("", "app"), None);
    }

    #[test]
    fn only_what_is_too_old_is_raised() {
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
