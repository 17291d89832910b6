//! `koze add`: a new sandbox file, built.

use std::path::Path;
use std::process::ExitCode;

use koze_model::names::{Names, SUFFIX};
use koze_model::{paths, sandbox};
use serde_json::Value;

use super::drafted;
use crate::args;
use crate::build;
use crate::discover::{Project, is_skipped};
use crate::draft::Draft;
use crate::finding::{Findings, Stop};
use crate::lock::Lock;
use crate::rules::Rule;
use crate::wrangler::create;
use crate::wrangler::locate::Config;
use crate::wrangler::scope::{self, Scope};

/// Where the first sandbox of a project stands.
pub(super) const DIR: &str = "src/server";

pub(super) fn run(args: &args::Add) -> ExitCode {
    drafted::run(&args.edit, |project, options, findings| {
        let names = names(&args.name, findings)?;
        let dir = match &args.dir {
            Some(dir) => below_src(dir, findings)?,
            None => usual_dir(project, findings)?,
        };
        let mut keys: Vec<String> =
            args.variant.iter().map(|variant| format!("variant = {variant:?}")).collect();
        let class = sandbox::class_of(&names);
        let config = build::config(project, options, findings)?;
        let scopes = scope::all(&config, project, findings)?;
        let name = container(&names, &class, project, &config, &scopes, findings)?;
        keys.extend(name.map(|name| format!("name = {name:?}")));
        let text = text(&keys, &class);
        create(project, &format!("{dir}/{}{SUFFIX}", names.base), text, &mut options.draft, findings)?;
        Ok(Vec::new())
    })
}

/// The names that follow from a base name.
pub(super) fn names(base: &str, findings: &mut Findings) -> Result<Names, Stop> {
    // A user who names the file means the same.
    let base = base.strip_suffix(SUFFIX).unwrap_or(base);
    Names::of_file(&format!("{}{SUFFIX}", base.replace('/', " "))).or_else(|rule| match rule {
        koze_model::Rule::BadFileName { suggestion, .. } => {
            findings.fail(Rule::BadNewName { name: base.to_owned(), suggestion }, None)
        }
        rule => findings.fail(rule, None),
    })
}

/// The name for the container of a new sandbox: the Worker's name begins it, for applications have names that are unique in
/// an account, and two Workers may both have a `shell`. None where a container of the class is there, which has its own.
pub(super) fn container(
    names: &Names,
    class: &str,
    project: &Project,
    config: &Config,
    scopes: &[Scope],
    findings: &mut Findings,
) -> Result<Option<String>, Stop> {
    let containers = || scopes.iter().flat_map(|scope| scope.list(&["containers"]));
    let text = |entry: &'_ Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    if containers().any(|entry| text(entry, "class_name").as_deref() == Some(class)) {
        return Ok(None);
    }
    let lock = Lock::read(project, findings)?;
    let mut taken: Vec<String> = containers().filter_map(|entry| text(entry, "name")).collect();
    taken.extend(lock.sandboxes.iter().map(|locked| locked.container.clone()));
    let worker = config.document.value().get("name").and_then(Value::as_str).unwrap_or(&project.name);
    // An environment puts its own name behind it.
    let suffix = scopes.iter().map(|scope| scope.container("").len()).max().unwrap_or(0);
    let name = |base: &str| application(worker, base, LONGEST.saturating_sub(suffix));
    let wanted = name(&names.base);
    // Of one more name than there are taken ones, one is free.
    let numbered = (2..=taken.len() + 2).map(|number| name(&format!("{}-{number}", names.base)));
    Ok(std::iter::once(wanted).chain(numbered).find(|name| !taken.contains(name)))
}

/// What wrangler takes for the name of an application.
const LONGEST: usize = 63;

/// The name of an application: that of the Worker, cut where it is too long, and that of the sandbox.
fn application(worker: &str, base: &str, longest: usize) -> String {
    let base = base.replace('_', "-");
    let worker = create::worker_name(worker).replace('_', "-");
    let worker: String = worker.chars().take(longest.saturating_sub(base.len() + 1)).collect();
    format!("{worker}-{base}").trim_matches('-').to_owned()
}

/// A sandbox file with these keys in its attribute.
pub(super) fn text(keys: &[String], class: &str) -> String {
    let keys = if keys.is_empty() { String::new() } else { format!("({})", keys.join(", ")) };
    format!("use koze::prelude::*;\n\n#[sandbox{keys}]\npub struct {class};\n")
}

/// Adds a file to the draft, which must not be there.
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
    // A link may lead out of the package, where no build looks.
    let there = path.ancestors().skip(1).find_map(|dir| fs_err::canonicalize(dir).ok());
    if !there.is_some_and(|dir| dir.starts_with(&project.dir)) {
        let dir = file.rsplit_once('/').map_or(file, |(dir, _)| dir).to_owned();
        return findings.fail(Rule::BadSandboxDir { dir }, None);
    }
    draft.create(path, text);
    Ok(())
}

/// The directory that all sandboxes of the project stand in, else the usual one.
pub(super) fn usual_dir(project: &Project, findings: &mut Findings) -> Result<String, Stop> {
    let sandboxes = project.sandboxes(&Draft::default(), findings);
    findings.checked()?;
    let mut dirs: Vec<&str> =
        sandboxes.list.iter().filter_map(|sandbox| Some(sandbox.file.rsplit_once('/')?.0)).collect();
    dirs.dedup();
    Ok(match dirs.as_slice() {
        [dir] => (*dir).to_owned(),
        _ => DIR.to_owned(),
    })
}

/// A directory that `koze build` looks into, relative to the package.
fn below_src(dir: &str, findings: &mut Findings) -> Result<String, Stop> {
    let normal = paths::normal(Path::new(dir));
    let parts: Option<Vec<&str>> = normal.iter().map(|part| part.to_str()).collect();
    let parts = parts.unwrap_or_default();
    let good = parts.first() == Some(&"src")
        && parts.get(1) != Some(&"generated")
        && !parts.iter().any(|part| is_skipped(part));
    if good { Ok(parts.join("/")) } else { findings.fail(Rule::BadSandboxDir { dir: dir.to_owned() }, None) }
}
