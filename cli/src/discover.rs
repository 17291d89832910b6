//! Finds the package and the files of its sandboxes and containers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koze_core::journal::JournalSettings;
use koze_core::provider::LocalImage;
use koze_model::{Kind, Report, Sandbox, project};
use walkdir::{DirEntry, WalkDir};

use crate::draft::Draft;
use crate::finding::{Findings, Place, Stop};
use crate::manifest::{self, Manifest, ScriptTable};
use crate::own::Own;
use crate::paths;
use crate::platform;
use crate::rules::Rule;
use crate::sdk;
use crate::write::{beneath, input};

/// A Cargo package.
#[derive(Debug)]
pub struct Project {
    /// The directory of its `Cargo.toml`, without symbolic links.
    pub dir: PathBuf,
    /// The package's name.
    pub name: String,
    /// The environments that koze manages; `None` means all.
    pub environments: Option<Vec<String>>,
    /// Whether the Worker records the sandboxes of its sessions.
    pub registry: bool,
    /// What the manifest sets for scripts, if the project serves the tools `script`.
    pub script: Option<ScriptTable>,
    /// What the journal of tool calls records.
    pub journal: JournalSettings,
    /// The files that new sandboxes have on this machine.
    pub local_image: LocalImage,
}

/// The validated sandboxes of a project and their source texts.
#[derive(Debug)]
pub struct Sandboxes {
    /// The sandboxes, in the order of their files.
    pub list: Vec<Sandbox>,
    texts: BTreeMap<String, Arc<str>>,
    dockerfiles: BTreeSet<PathBuf>,
}

impl Sandboxes {
    /// Returns whether the directory walk found a Dockerfile at a path below `src`.
    pub fn has_dockerfile(&self, path: &Path) -> bool {
        self.dockerfiles.contains(path)
    }

    /// Returns a location in a sandbox's file.
    pub fn place(&self, sandbox: &Sandbox, span: proc_macro2::Span) -> Place {
        let text = self.texts.get(&sandbox.file).cloned().unwrap_or_else(|| Arc::from(""));
        Place { file: sandbox.file.clone(), text, range: Some(span.byte_range()) }
    }
}

/// The suffix of the Dockerfile next to a sandbox file.
pub const DOCKERFILE: &str = ".Dockerfile";

/// Returns whether koze skips directories of this name.
pub fn is_skipped(name: &str) -> bool {
    name.starts_with('.') || ["target", "node_modules"].contains(&name)
}

/// The relevant files below `src`.
struct Sources {
    /// The files of sandboxes and containers, sorted by path.
    files: Vec<PathBuf>,
    /// The Dockerfiles that may belong to them.
    dockerfiles: BTreeSet<PathBuf>,
}

impl Project {
    /// Returns whether the manifest enables a class of koze's own.
    pub fn enables(&self, own: Own) -> bool {
        match own {
            Own::Registry => self.registry,
            Own::Scripts => self.worker_scripts().is_some(),
        }
    }

    /// Returns the classes of koze's own that the manifest enables.
    pub fn enabled(&self) -> impl Iterator<Item = Own> {
        Own::ALL.into_iter().filter(|own| self.enables(*own))
    }

    /// Finds the package that contains `dir`: the nearest `Cargo.toml` at or above it, as cargo does.
    ///
    /// # Errors
    /// Returns [`Stop`] if there is no package or its manifest is invalid.
    pub fn find(dir: &Path, findings: &mut Findings) -> Result<Project, Stop> {
        let shown = dir.display().to_string();
        let no_package = |why: &str| Rule::NoPackage { dir: shown.clone(), why: why.to_owned() };
        let Ok(absolute) = paths::canonical(dir) else {
            return findings.fail(no_package("the directory does not exist"), None);
        };
        let Some(path) = absolute.ancestors().map(|dir| dir.join("Cargo.toml")).find(|path| path.is_file())
        else {
            return findings.fail(no_package("neither it nor a directory above it has a `Cargo.toml`"), None);
        };
        let dir = path.parent().unwrap_or(&absolute).to_owned();
        let Manifest { name, environments, registry, script, journal, local_image } =
            manifest::read(&path, findings)?;
        let Some(name) = name else {
            let members = workspace_members(&path);
            let why = if members.is_empty() {
                "its `Cargo.toml` has no `[package]`".to_owned()
            } else {
                format!("it is a workspace of {}", members.join(", "))
            };
            return findings.fail(no_package(&why), None);
        };
        Ok(Project { dir, name, environments, registry, script, journal, local_image })
    }

    /// Returns the directory of the repository that contains the package: the nearest one with `.git`, or the package's
    /// own.
    pub fn repository(&self) -> &Path {
        self.dir.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(&self.dir)
    }

    /// Returns what the manifest sets for scripts of the Worker, if it serves the tools `script`.
    pub fn worker_scripts(&self) -> Option<&ScriptTable> {
        self.script.as_ref().filter(|script| script.worker)
    }

    /// Reads every `src/**/*.sandbox.rs` and `src/**/*.container.rs`, and validates them one by one and together.
    ///
    /// Adds errors to `findings` without stopping; the caller checks them at the end of the stage.
    pub fn sandboxes(&self, draft: &Draft, findings: &mut Findings) -> Sandboxes {
        let mut list = Vec::new();
        let mut files: Vec<(String, Arc<str>)> = Vec::new();
        let Sources { files: paths, dockerfiles } = self.find_sources(draft, findings);
        let mut resolver = beneath::Resolver::new(&self.dir);
        for path in paths {
            let file = paths::relative(&path, &self.dir);
            if path.to_str().is_none() {
                findings.add(Rule::NotUtf8 { path: file }, None);
                continue;
            }
            if let Some((text, sandbox)) = read_sandbox(&mut resolver, &path, &file, draft, findings) {
                list.push(sandbox);
                files.push((file, text));
            }
        }
        let mut report = Report::new();
        project::check(&list, &mut report);
        for diagnostic in report.into_vec() {
            findings.diagnostic(diagnostic, &files);
        }
        Sandboxes { list, texts: files.into_iter().collect(), dockerfiles }
    }

    /// Finds the relevant files below `src`.
    fn find_sources(&self, draft: &Draft, findings: &mut Findings) -> Sources {
        let src = self.dir.join("src");
        if let Err(error) = beneath::resolve(&self.dir, &src) {
            findings.add_io(&error);
            return Sources { files: Vec::new(), dockerfiles: BTreeSet::new() };
        }
        let generated = src.join("generated");
        let inside = |entry: &DirEntry| {
            // A symbolic link may lead out of the package.
            !entry.path_is_symlink()
                || paths::canonical(entry.path()).is_ok_and(|path| path.starts_with(&self.dir))
        };
        let wanted = |entry: &DirEntry| {
            let name = entry.file_name().to_string_lossy();
            entry.depth() == 0 || (entry.path() != generated && !is_skipped(&name) && inside(entry))
        };
        let mut files = Vec::new();
        let mut dockerfiles = BTreeSet::new();
        let mut links = false;
        for entry in WalkDir::new(&src).follow_links(true).into_iter().filter_entry(wanted) {
            match entry {
                Ok(entry) => {
                    links |= entry.path_is_symlink();
                    let name = entry.file_name().to_string_lossy().into_owned();
                    if entry.file_type().is_file() && Kind::of_file(&name).is_some() {
                        files.push(entry.into_path());
                    } else if entry.file_type().is_file() && name.ends_with(DOCKERFILE) {
                        dockerfiles.insert(entry.into_path());
                    }
                }
                // A symlink loop, a dangling link or a missing `src` is not an error.
                Err(error) if error.loop_ancestor().is_some() => links = true,
                Err(error) if error.io_error().is_some_and(leads_nowhere) => {}
                Err(error) => {
                    let kind = error.io_error().map_or(ErrorKind::Other, std::io::Error::kind);
                    findings.add(Rule::Io { message: error.to_string(), kind }, None);
                }
            }
        }
        // A path through a link differs from the path that the draft uses.
        let own = |path: &PathBuf| links.then(|| paths::canonical(path).ok()).flatten();
        let stays = |path: &PathBuf| {
            let drafted = draft.file(path).or_else(|| draft.file(own(path).as_deref()?));
            drafted.is_none_or(|file| file.is_some())
        };
        files.retain(stays);
        let drafted = Kind::ALL.into_iter().flat_map(|kind| draft.ending(kind.suffix()));
        files.extend(drafted.map(Path::to_owned));
        files.sort();
        files.dedup();
        dockerfiles.retain(stays);
        dockerfiles.extend(draft.ending(DOCKERFILE).map(Path::to_owned));
        if links {
            files = once_each(files);
        }
        Sources { files, dockerfiles }
    }
}

/// Returns whether an error means that a link is dangling or points to itself.
fn leads_nowhere(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || platform::is_link_loop(error)
}

/// Removes files that were found twice, through a link and directly, in favor of the direct path. Paths stay below
/// `src`, wherever a link leads.
fn once_each(files: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut met: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for path in files {
        let own = paths::canonical(&path).unwrap_or_else(|_| path.clone());
        if path == own || !met.contains_key(&own) {
            met.insert(own, path);
        }
    }
    let mut files: Vec<PathBuf> = met.into_values().collect();
    files.sort();
    files
}

/// Reads and validates one sandbox file. The returned text has no byte order mark, because the parser does not count
/// it.
fn read_sandbox(
    resolver: &mut beneath::Resolver,
    path: &Path,
    file: &str,
    draft: &Draft,
    findings: &mut Findings,
) -> Option<(Arc<str>, Sandbox)> {
    let drafted = draft.file(path).flatten().map(<[u8]>::to_vec);
    let bytes = match drafted.map_or_else(|| input::read(&resolver.resolve(path)?), Ok) {
        Ok(bytes) => bytes,
        Err(error) => {
            findings.add_io(&error);
            return None;
        }
    };
    let Ok(text) = String::from_utf8(bytes) else {
        findings.add(
            koze_model::Rule::NotRust { message: "it is not UTF-8".to_owned() },
            Some(Place::file(file)),
        );
        return None;
    };
    let text: Arc<str> = Arc::from(text.trim_start_matches('\u{feff}'));
    let beside = path.parent().unwrap_or(path);
    let exists = |relative: &str| {
        let path = paths::normal(&beside.join(relative));
        draft.file(&path).map_or_else(|| path.is_file(), |file| file.is_some())
    };
    let mut report = Report::new();
    let sandbox = Sandbox::read(file, &text, &exists, &mut report);
    let files = [(file.to_owned(), text.clone())];
    for diagnostic in report.into_vec() {
        findings.diagnostic(diagnostic, &files);
    }
    Some((text, sandbox?))
}

/// Returns the members of a workspace, for the error message.
fn workspace_members(manifest: &Path) -> Vec<String> {
    let metadata = sdk::graph(manifest).and_then(|mut graph| graph.no_deps().exec().ok());
    let Some(metadata) = metadata else {
        return Vec::new();
    };
    let root = metadata.workspace_root.clone().into_std_path_buf();
    metadata
        .workspace_packages()
        .iter()
        .filter_map(|package| package.manifest_path.parent())
        .map(|dir| format!("`{}`", paths::relative(dir.as_std_path(), &root)))
        .collect()
}
