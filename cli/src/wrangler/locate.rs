//! Finds the configuration file that wrangler would read.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use koze_edit::{Document, Format, Step};

use super::create;
use crate::discover::Project;
use crate::finding::{Findings, Place, Stop};
use crate::paths;
use crate::rules::Rule;
use crate::write::{beneath, input};

/// The file names of configurations. wrangler looks for each name in all directories up to the root before it looks for
/// the next name.
const NAMES: [&str; 3] = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"];

/// The key that marks a Pages configuration for wrangler, whatever its value.
const PAGES: &str = "pages_build_output_dir";

/// The file with which other tools redirect wrangler to a generated configuration.
const REDIRECT: &str = ".wrangler/deploy/config.json";

/// The wrangler configuration of a project.
#[derive(Debug)]
pub struct Config {
    /// Its path, without symbolic links in its directory.
    pub path: PathBuf,
    /// The file itself, if the path is a symbolic link.
    pub target: PathBuf,
    /// Its path in messages, relative to the package.
    pub shown: String,
    /// Its content.
    pub document: Document,
    /// Whether it was given explicitly and is not the one that wrangler would find.
    pub named: bool,
    /// Where the document comes from.
    pub origin: Origin,
    /// The path in messages of the file that `koze.lock` belongs to, if that is another existing file.
    pub owner: Option<String>,
    /// The text of the document, which all places share.
    text: OnceLock<Arc<str>>,
}

/// Where the document of a configuration comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The file does not exist: this run creates it.
    Template,
    /// A file that this run has created, in a staging directory.
    Staged,
    /// A file of the user.
    File,
    /// A file of the user, which the command has edited: the document differs from it.
    Edited,
}

/// A configuration that is not looked for.
#[derive(Debug, Clone, Copy)]
pub enum Given<'a> {
    /// The user named it, so it may be anywhere.
    ByUser(&'a Path),
    /// `koze.lock` names it.
    ByLock(&'a Path),
}

impl<'a> Given<'a> {
    fn path(self) -> &'a Path {
        match self {
            Given::ByUser(path) | Given::ByLock(path) => path,
        }
    }
}

impl Config {
    /// Opens `--config` or the file that wrangler would find. If neither exists, returns a new document.
    ///
    /// # Errors
    /// Returns [`Stop`] if the file cannot be read or is not supported.
    ///
    /// # Panics
    /// Never: koze's own template parses.
    pub fn open(project: &Project, given: Option<Given>, findings: &mut Findings) -> Result<Config, Stop> {
        let path = match given.map(Given::path) {
            Some(path) => Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
            None => find_config(project, findings)?,
        };
        let Some(path) = path else {
            let text = create::config(&project.name);
            let document = Document::parse(Format::Jsonc, text).expect("the template parses");
            let path = project.dir.join("wrangler.jsonc");
            return Ok(Config {
                shown: "wrangler.jsonc".to_owned(),
                target: path.clone(),
                path,
                document,
                named: false,
                origin: Origin::Template,
                owner: None,
                text: OnceLock::new(),
            });
        };
        let path = resolve_dir(&path);
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
        let read = resolve_file(&path, given, project).and_then(|target| Ok((input::read(&target)?, target)));
        let (bytes, target) = match read {
            Ok(read) => read,
            Err(error) => return findings.io(&error),
        };
        let Ok(text) = String::from_utf8(bytes) else {
            let message = "it is not UTF-8".to_owned();
            return findings.fail(Rule::ConfigSyntax { message }, Some(Place::file(shown)));
        };
        let document = match Document::parse(format, text.as_str()) {
            // New keys of the top level are easier to read before the environments that override them.
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
        let named = given.is_some()
            && (find_redirect(project).is_some() || find_nearest(project).as_ref() != Some(&path));
        Ok(Config {
            path,
            target,
            shown,
            document,
            named,
            origin: Origin::File,
            owner: None,
            text: OnceLock::new(),
        })
    }

    /// Returns whether the file exists.
    pub fn exists(&self) -> bool {
        self.origin != Origin::Template
    }

    /// Returns whether this run creates the file, so that nothing was deployed from it and koze chooses its form.
    pub fn is_new(&self) -> bool {
        matches!(self.origin, Origin::Template | Origin::Staged)
    }

    /// Replaces the document by one that koze has edited.
    ///
    /// # Panics
    /// Never: what koze edited parses.
    pub fn replace_text(&mut self, text: &str) {
        let document = Document::parse(self.document.format(), text).expect("what koze edited parses");
        self.document = document.keep_last("env");
        self.text = OnceLock::new();
        self.origin = Origin::Edited;
    }

    /// Determines which file `koze.lock` belongs to: the one that it names, or the one that wrangler finds.
    pub fn note_owner(&mut self, project: &Project, locked: Option<&Path>) {
        let owner = locked.map(resolve_dir).or_else(|| find_nearest(project)).filter(|owner| owner.is_file());
        self.owner =
            owner.filter(|owner| *owner != self.path).map(|owner| paths::relative(&owner, &project.dir));
    }

    /// Returns the directory that its paths are relative to.
    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Returns the location of the value at `path`, or of the nearest existing parent.
    pub fn place(&self, path: &[Step]) -> Place {
        let range = (0..=path.len()).rev().find_map(|length| self.document.range(&path[..length]));
        let text = self.text.get_or_init(|| Arc::from(self.document.text()));
        Place { file: self.shown.clone(), text: Arc::clone(text), range }
    }
}

/// Resolves the symbolic links of a path's directory. The file itself may be a link: wrangler resolves the paths in it
/// relative to the link.
fn resolve_dir(path: &Path) -> PathBuf {
    let path = paths::normal(path);
    let dir = path.parent().and_then(|dir| paths::canonical(dir).ok());
    match (dir, path.file_name()) {
        (Some(dir), Some(name)) => dir.join(name),
        _ => path,
    }
}

/// Returns the file itself. Links lead out of the package only if the user named the file.
fn resolve_file(path: &Path, given: Option<Given>, project: &Project) -> io::Result<PathBuf> {
    match given {
        // Reading it reports one that does not exist.
        Some(Given::ByUser(_)) => Ok(paths::canonical(path).unwrap_or_else(|_| path.to_owned())),
        Some(Given::ByLock(_)) if !path.starts_with(&project.dir) => {
            beneath::resolve(project.repository(), path)
        }
        _ => beneath::resolve(&project.dir, path),
    }
}

/// Finds a file by name in the package's directory or a parent.
fn find_upward(project: &Project, name: &str) -> Option<PathBuf> {
    project.dir.ancestors().map(|dir| dir.join(name)).find(|path| path.is_file())
}

fn find_redirect(project: &Project) -> Option<PathBuf> {
    find_upward(project, REDIRECT)
}

/// Returns the file that wrangler would read without a redirect.
fn find_nearest(project: &Project) -> Option<PathBuf> {
    NAMES.iter().find_map(|name| find_upward(project, name))
}

/// Returns the package's configurations that wrangler reads only if they are named, such as `wrangler.staging.toml`.
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

/// Returns the file that wrangler would read. It must be inside the package.
fn find_config(project: &Project, findings: &mut Findings) -> Result<Option<PathBuf>, Stop> {
    if let Some(redirect) = find_redirect(project) {
        let found = paths::relative(&redirect, &project.dir);
        let why = "which redirects it to a file that another tool generated";
        let remedy =
            "pass the file that the other tool reads: `koze build --config wrangler.jsonc`".to_owned();
        let rule = Rule::ConfigElsewhere { found, why, remedy };
        return findings.fail(rule, None);
    }
    let Some(path) = find_nearest(project) else {
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
