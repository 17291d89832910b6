//! `koze add`: a new sandbox file, built.

use std::path::Path;
use std::process::ExitCode;

use koze_model::names::{Names, SUFFIX};
use koze_model::{Rule, paths, sandbox};

use super::drafted;
use crate::args;
use crate::discover::{Project, is_skipped};
use crate::draft::Draft;
use crate::finding::{Findings, Stop};
use crate::lock::Lock;

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
        keys.extend(container(&names, project, findings)?.map(|name| format!("name = {name:?}")));
        let text = text(&keys, &sandbox::class_of(&names));
        create(project, &format!("{dir}/{}{SUFFIX}", names.base), text, &mut options.draft, findings)?;
        Ok(Vec::new())
    })
}

/// The names that follow from a base name.
pub(super) fn names(base: &str, findings: &mut Findings) -> Result<Names, Stop> {
    // A user who names the file means the same.
    let base = base.strip_suffix(SUFFIX).unwrap_or(base);
    Names::of_file(&format!("{}{SUFFIX}", base.replace('/', " "))).or_else(|rule| match rule {
        Rule::BadFileName { suggestion, .. } => {
            findings.fail(Rule::BadNewName { name: base.to_owned(), suggestion }, None)
        }
        rule => findings.fail(rule, None),
    })
}

/// The name that a new sandbox's container needs where its usual one is taken: a sandbox that was renamed keeps its own.
fn container(names: &Names, project: &Project, findings: &mut Findings) -> Result<Option<String>, Stop> {
    let lock = Lock::read(project, findings)?;
    let taken = |name: &str| lock.sandboxes.iter().any(|locked| locked.container == name);
    if !taken(&names.container) {
        return Ok(None);
    }
    // Of one more name than there are sandboxes, one is free.
    let numbers = 2..=lock.sandboxes.len() + 2;
    Ok(numbers.map(|number| format!("{}-{number}", names.container)).find(|name| !taken(name)))
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
