//! `koze add`: creates the file of a sandbox or container, and builds.

use std::path::Path;
use std::process::ExitCode;

use koze_model::image::PLATFORM_IMAGE;
use koze_model::names::{InvalidFileName, Names};
use koze_model::{Backend, Kind, Sandbox, sandbox};
use serde_json::Value;

use super::{backend, drafted};
use crate::args;
use crate::build;
use crate::discover::{DOCKERFILE, Project, is_skipped};
use crate::draft::Draft;
use crate::finding::{Findings, Stop};
use crate::lock::Lock;
use crate::paths;
use crate::rules::Rule;
use crate::wrangler::create;
use crate::wrangler::locate::Config;
use crate::wrangler::scope::{self, Scope};

/// The default directory for a project's first sandbox.
pub(super) const DIR: &str = "src/server";

pub(super) fn run(args: &args::Add) -> ExitCode {
    drafted::run(&args.edit, |project, options, findings| {
        let kind = if args.container { Kind::Container } else { Kind::Sandbox };
        let names = names(kind, &args.name, findings)?;
        let sandboxes = project.sandboxes(&Draft::default(), findings);
        findings.checked()?;
        let dir = match &args.dir {
            Some(dir) => below_src(dir, findings)?,
            None => usual_dir(&sandboxes.list),
        };
        let backend = args.backend.map_or_else(|| usual_backend(&sandboxes.list), Backend::from);
        if let Some(variant) = args.variant.as_ref().filter(|_| backend.has_own_guest()) {
            let rule = Rule::VariantOfSdk {
                variant: variant.clone(),
                name: names.base.clone(),
                dockerfile: format!("{dir}/{}{DOCKERFILE}", names.base),
            };
            return findings.fail(rule, None);
        }
        if kind == Kind::Container {
            let config = build::config(project, options, findings)?;
            create_container(args, &names, &dir, project, &config, &mut options.draft, findings)?;
            return Ok(Vec::new());
        }
        let mut keys: Vec<String> =
            args.variant.iter().map(|variant| format!("variant = {variant:?}")).collect();
        let class = sandbox::class_of(&names);
        let config = build::config(project, options, findings)?;
        let scopes = scope::all(&config, project, findings)?;
        let name = container(&names, &class, project, &config, &scopes, findings)?;
        keys.extend(name.map(|name| format!("name = {name:?}")));
        let wanted = Wanted { names: &names, class: &class, keys, backend };
        create_sandbox(project, &dir, wanted, &mut options.draft, findings)?;
        let is_first = sandboxes_only(&sandboxes.list).all(|sandbox| sandbox.attributes.backend() != backend);
        let words = match backend {
            Backend::Native => Some(backend::DOCKER),
            Backend::Managed => Some(backend::BETA),
            Backend::Sdk => None,
        };
        Ok(words.filter(|_| is_first).map(str::to_owned).into_iter().collect())
    })
}

/// A sandbox to create.
pub(super) struct Wanted<'a> {
    pub(super) names: &'a Names,
    pub(super) class: &'a str,
    /// The keys of its attribute, without `backend`.
    pub(super) keys: Vec<String>,
    pub(super) backend: Backend,
}

/// Adds the files of a sandbox in this directory to the draft: its source and, with koze's guest, the Dockerfile of its image.
/// Fails if the source exists; a Dockerfile that exists is kept.
pub(super) fn create_sandbox(
    project: &Project,
    dir: &str,
    wanted: Wanted,
    draft: &mut Draft,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let Wanted { names, class, mut keys, backend } = wanted;
    if backend.has_own_guest() {
        keys.push(format!("backend = \"{backend}\""));
    }
    if backend == Backend::Managed {
        keys.push(format!("image = \"{PLATFORM_IMAGE}\""));
    }
    let file = format!("{dir}/{}{}", names.base, Kind::Sandbox.suffix());
    create(project, &file, text(Kind::Sandbox, &keys, class), draft, findings)?;
    if backend == Backend::Native {
        let path = project.dir.join(format!("{dir}/{}{DOCKERFILE}", names.base));
        if path.symlink_metadata().is_err() {
            draft.create(path, koze_templates::DOCKERFILE);
        }
    }
    Ok(())
}

/// Adds the file of a container to the draft. Fails if the file exists.
fn create_container(
    args: &args::Add,
    names: &Names,
    dir: &str,
    project: &Project,
    config: &Config,
    draft: &mut Draft,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let class = sandbox::class_of(names);
    let scopes = scope::all(config, project, findings)?;
    let mut keys: Vec<String> = args.image.iter().map(|image| format!("image = {image:?}")).collect();
    keys.extend(args.port.map(|port| format!("port = {port}")));
    keys.extend(args.backend.map(|backend| format!("backend = \"{}\"", Backend::from(backend))));
    let name = container(names, &class, project, config, &scopes, findings)?;
    keys.extend(name.map(|name| format!("name = {name:?}")));
    let file = format!("{dir}/{}{}", names.base, Kind::Container.suffix());
    create(project, &file, text(Kind::Container, &keys, &class), draft, findings)
}

/// Returns the sandboxes, without containers.
pub(super) fn sandboxes_only(list: &[Sandbox]) -> impl Iterator<Item = &Sandbox> {
    list.iter().filter(|sandbox| sandbox.kind() == Kind::Sandbox)
}

/// Derives the names of a sandbox or container from its base name.
pub(super) fn names(kind: Kind, base: &str, findings: &mut Findings) -> Result<Names, Stop> {
    // Accept the name of the file, too.
    let suffix = kind.suffix();
    let base = base.strip_suffix(suffix).unwrap_or(base);
    Names::of_file(&format!("{}{suffix}", base.replace('/', " "))).or_else(|invalid| match invalid {
        InvalidFileName::Base { suggestion, .. } => {
            findings.fail(Rule::BadNewName { name: base.to_owned(), suggestion }, None)
        }
        invalid @ InvalidFileName::Suffix { .. } => findings.fail(koze_model::Rule::from(invalid), None),
    })
}

/// Returns the container name of a new sandbox, or `None` if the configuration already has a container of the class.
///
/// The name starts with the Worker's name: application names are unique in an account, and two Workers may both have a
/// `shell`.
pub(super) fn container(
    names: &Names,
    class: &str,
    project: &Project,
    config: &Config,
    scopes: &[Scope],
    findings: &mut Findings,
) -> Result<Option<String>, Stop> {
    let containers = || {
        scopes.iter().flat_map(|scope| scope.list(&["containers"]).iter().map(move |entry| (scope, entry)))
    };
    if containers().any(|(scope, entry)| scope.container_class(entry) == Some(class)) {
        return Ok(None);
    }
    let lock = Lock::read(project, findings)?;
    let present = containers().filter_map(|(_, entry)| entry.get("name").and_then(Value::as_str));
    let mut taken: Vec<String> = present.map(str::to_owned).collect();
    taken.extend(lock.sandboxes.iter().map(|locked| locked.container.clone()));
    let worker = config.document.value().get("name").and_then(Value::as_str).unwrap_or(&project.name);
    // wrangler appends the name of the environment.
    let suffix = scopes.iter().map(|scope| scope.container("").len()).max().unwrap_or(0);
    let name = |base: &str| application_name(worker, base, MAX_NAME.saturating_sub(suffix));
    let wanted = name(&names.base);
    // With one more candidate than there are taken names, at least one is free.
    let numbered = (2..=taken.len() + 2).map(|number| name(&format!("{}-{number}", names.base)));
    Ok(std::iter::once(wanted).chain(numbered).find(|name| !taken.contains(name)))
}

/// The maximum length of an application name in wrangler.
const MAX_NAME: usize = 63;

/// The maximum length of an attribute's keys on one line.
const MAX_LINE: usize = 80;

/// Joins the names of the Worker and the sandbox, truncating the Worker's name to fit.
fn application_name(worker: &str, base: &str, longest: usize) -> String {
    let base = base.replace('_', "-");
    let worker = create::worker_name(worker).replace('_', "-");
    let worker: String = worker.chars().take(longest.saturating_sub(base.len() + 1)).collect();
    format!("{worker}-{base}").trim_matches('-').to_owned()
}

/// Renders a file whose attribute has these keys, on one line if they fit.
pub(super) fn text(kind: Kind, keys: &[String], class: &str) -> String {
    let line = keys.join(", ");
    let keys = if keys.is_empty() {
        String::new()
    } else if line.len() <= MAX_LINE {
        format!("({line})")
    } else {
        format!("(\n    {}\n)", keys.join(",\n    "))
    };
    format!("use koze::prelude::*;\n\n#[{kind}{keys}]\npub struct {class};\n")
}

/// Adds a new file to the draft. Fails if the file exists.
pub(super) fn create(
    project: &Project,
    file: &str,
    text: String,
    draft: &mut Draft,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let path = project.dir.join(file);
    if path.symlink_metadata().is_ok() {
        return findings.fail(Rule::SandboxExists { file: file.to_owned() }, None);
    }
    // A symbolic link may lead out of the package, where builds do not look.
    let there = path.ancestors().skip(1).find_map(|dir| paths::canonical(dir).ok());
    if !there.is_some_and(|dir| dir.starts_with(&project.dir)) {
        let dir = file.rsplit_once('/').map_or(file, |(dir, _)| dir).to_owned();
        return findings.fail(Rule::BadSandboxDir { dir }, None);
    }
    draft.create(path, text);
    Ok(())
}

/// Returns the directory that contains all sandboxes of a project, or the default one.
pub(super) fn usual_dir(sandboxes: &[Sandbox]) -> String {
    let mut dirs: Vec<&str> =
        sandboxes.iter().filter_map(|sandbox| Some(sandbox.file.rsplit_once('/')?.0)).collect();
    dirs.dedup();
    match dirs.as_slice() {
        [dir] => (*dir).to_owned(),
        _ => DIR.to_owned(),
    }
}

/// Returns the backend that all sandboxes of a project have, or else that of an attribute without the key.
fn usual_backend(sandboxes: &[Sandbox]) -> Backend {
    let mut backends = sandboxes_only(sandboxes).map(|sandbox| sandbox.attributes.backend());
    let first = backends.next().unwrap_or_default();
    if backends.all(|backend| backend == first) { first } else { Backend::default() }
}

/// Validates a directory below `src` and returns it relative to the package.
fn below_src(dir: &str, findings: &mut Findings) -> Result<String, Stop> {
    let normal = paths::normal(Path::new(dir));
    let parts: Option<Vec<&str>> = normal.iter().map(|part| part.to_str()).collect();
    let parts = parts.unwrap_or_default();
    let good = parts.first() == Some(&"src")
        && parts.get(1) != Some(&"generated")
        && !parts.iter().any(|part| is_skipped(part));
    if good { Ok(parts.join("/")) } else { findings.fail(Rule::BadSandboxDir { dir: dir.to_owned() }, None) }
}
