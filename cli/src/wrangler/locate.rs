//! Finds the configuration file that wrangler itself would read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koze_edit::{Document, Format, Step};

use super::create;
use crate::discover::Project;
use crate::finding::{Findings, Place, Stop};
use crate::paths;
use crate::rules::Rule;

/// wrangler asks for one name in every directory up to the root before it asks for the next.
const NAMES: [&str; 3] = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"];

/// The key that marks a Pages configuration, for wrangler as well, whatever its value.
const PAGES: &str = "pages_build_output_dir";

/// A redirect to a file that another tool generated.
const REDIRECT: &str = ".wrangler/deploy/config.json";

/// The wrangler configuration of a project.
#[derive(Debug)]
pub struct Config {
    /// Where it lies, without symbolic links.
    pub path: PathBuf,
    /// The same as messages show it: relative to the package.
    pub shown: String,
    /// What stands in it.
    pub document: Document,
    /// Whether it was named, and is not the one that wrangler would find.
    pub named: bool,
    /// Whether the file is there; where it is not, the document is what will be created.
    pub exists: bool,
    /// The file that `koze.lock` belongs to, as messages show it, where that is another one which is there, too.
    pub owner: Option<String>,
}

impl Config {
    /// Opens `--config`, or the file wrangler would find; where there is none, a new document.
    ///
    /// # Panics
    /// Never: koze's own template parses.
    pub fn open(project: &Project, given: Option<&Path>, findings: &mut Findings) -> Result<Config, Stop> {
        let path = match given {
            Some(path) => Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
            None => find(project, findings)?,
        };
        let Some(path) = path else {
            let text = create::config(&project.name);
            let document = Document::parse(Format::Jsonc, text).expect("the template parses");
            let path = project.dir.join("wrangler.jsonc");
            return Ok(Config {
                shown: "wrangler.jsonc".to_owned(),
                path,
                document,
                named: false,
                exists: false,
                owner: None,
            });
        };
        let path = located(&path);
        let shown = paths::relative(&path, &project.dir);
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("json" | "jsonc") => Format::Jsonc,
            Some("toml") => Format::Toml,
            _ => {
                let what = format!("`{shown}`");
                let remedy = "wrangler reads `.json`, `.jsonc` and `.toml`: use one of these".to_owned();
                return findings.fail(Rule::ConfigNotServed { what, remedy }, None);
            }
        };
        let bytes = match fs_err::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => return findings.io(&error),
        };
        let Ok(text) = String::from_utf8(bytes) else {
            let message = "it is not UTF-8".to_owned();
            return findings.fail(Rule::ConfigSyntax { message }, Some(Place::file(shown)));
        };
        let document = match Document::parse(format, text.as_str()) {
            // What is new at the top level is read before the environments that override it.
            Ok(document) => document.keep_last("env"),
            Err(error) => {
                let place = Place { file: shown, text: Arc::from(text), range: Some(error.range) };
                return findings.fail(Rule::ConfigSyntax { message: error.message }, Some(place));
            }
        };
        if !document.value().is_object() {
            let rule = Rule::ConfigShape { path: shown.clone(), expected: "an object" };
            let range = document.range(&[]);
            return findings.fail(rule, Some(Place { file: shown, text: Arc::from(text), range }));
        }
        if document.value().get(PAGES).is_some() {
            let place = Place {
                file: shown.clone(),
                text: Arc::from(text),
                range: document.key_range(&[Step::from(PAGES)]),
            };
            return findings.fail(Rule::PagesProject { config: shown }, Some(place));
        }
        let named =
            given.is_some() && (redirect(project).is_some() || nearest(project).as_ref() != Some(&path));
        Ok(Config { path, shown, document, named, exists: true, owner: None })
    }

    /// Notes which file `koze.lock` belongs to: the one that it names, or else the one that wrangler finds.
    pub fn note_owner(&mut self, project: &Project, locked: Option<&Path>) {
        let owner = locked.map(located).or_else(|| nearest(project)).filter(|owner| owner.is_file());
        self.owner =
            owner.filter(|owner| *owner != self.path).map(|owner| paths::relative(&owner, &project.dir));
    }

    /// The directory that paths in it are relative to.
    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// A place in it, of the value at `path` or, where there is none, of the nearest value around it.
    pub fn place(&self, path: &[Step]) -> Place {
        let range = (0..=path.len()).rev().find_map(|length| self.document.range(&path[..length]));
        Place { file: self.shown.clone(), text: Arc::from(self.document.text()), range }
    }
}

/// A path whose directory is without symbolic links. The file itself may be one: wrangler takes paths in it as relative
/// to where it found the file.
fn located(path: &Path) -> PathBuf {
    let path = paths::normal(path);
    let dir = path.parent().and_then(|dir| fs_err::canonicalize(dir).ok());
    match (dir, path.file_name()) {
        (Some(dir), Some(name)) => dir.join(name),
        _ => path,
    }
}

/// The file of a name in the directory of the package or above it.
fn upward(project: &Project, name: &str) -> Option<PathBuf> {
    project.dir.ancestors().map(|dir| dir.join(name)).find(|path| path.is_file())
}

fn redirect(project: &Project) -> Option<PathBuf> {
    upward(project, REDIRECT)
}

/// The file wrangler would read where there is no redirect.
fn nearest(project: &Project) -> Option<PathBuf> {
    NAMES.iter().find_map(|name| upward(project, name))
}

/// The configurations of a package that wrangler reads only where it is told to: `wrangler.staging.toml`.
pub fn strays(project: &Project) -> Vec<String> {
    let entries = std::fs::read_dir(&project.dir).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.path().is_file());
    let mut names: Vec<String> = files
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| is_stray(name))
        .collect();
    names.sort();
    names
}

fn is_stray(name: &str) -> bool {
    let rest = name.strip_prefix("wrangler").filter(|rest| rest.starts_with(['.', '-', '_']));
    let stem = rest.and_then(|rest| {
        [".json", ".jsonc", ".toml"].into_iter().find_map(|extension| rest.strip_suffix(extension))
    });
    stem.is_some_and(|stem| !stem.is_empty())
}

/// The file wrangler would read, which must lie in the package.
fn find(project: &Project, findings: &mut Findings) -> Result<Option<PathBuf>, Stop> {
    if let Some(redirect) = redirect(project) {
        let found = paths::relative(&redirect, &project.dir);
        let why = "which redirects it to a file that another tool generated";
        let remedy =
            "pass the file that the other tool reads: `koze build --config wrangler.jsonc`".to_owned();
        let rule = Rule::ConfigElsewhere { found, why, remedy };
        return findings.fail(rule, None);
    }
    let Some(path) = nearest(project) else {
        return Ok(None);
    };
    if path.parent() != Some(project.dir.as_path()) {
        let found = paths::relative(&path, &project.dir);
        let remedy = format!(
            "pass the file that koze should manage: `koze build --config {found}`, or one in this package"
        );
        let rule = Rule::ConfigElsewhere { found, why: "which lies outside the package", remedy };
        return findings.fail(rule, None);
    }
    Ok(Some(path))
}
