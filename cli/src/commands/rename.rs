//! `koze rename`: renames the file, the class or both, and everything derived from them. Storage is kept.

use std::process::ExitCode;

use koze_model::names::{Names, is_base_name, reserved_class};
use koze_model::{Kind, Sandbox, rules, sandbox};

use super::{add, drafted};
use crate::args;
use crate::build::Options;
use crate::discover::{DOCKERFILE, Project};
use crate::draft::Draft;
use crate::finding::{Findings, Stop};
use crate::rules::Rule;
use crate::source::attribute::{self, Change};
use crate::source::mentions::{self, Mention};
use crate::source::{idents, split_mark};
use crate::write::input;

pub(super) fn run(args: &args::Rename) -> ExitCode {
    drafted::run(&args.edit, |project, options, findings| rename_sandbox(args, project, options, findings))
}

fn rename_sandbox(
    args: &args::Rename,
    project: &Project,
    options: &mut Options,
    findings: &mut Findings,
) -> Result<Vec<String>, Stop> {
    let sandboxes = project.sandboxes(&Draft::default(), findings);
    findings.checked()?;
    let is_meant = |sandbox: &&Sandbox| sandbox.is_named(&args.old);
    let Some(sandbox) = sandboxes.list.iter().find(is_meant) else {
        let known = sandboxes.list.iter().map(|sandbox| sandbox.names.base.clone()).collect();
        return findings.fail(Rule::NoSuchSandbox { name: args.old.clone(), known }, None);
    };
    let old = sandbox.class.value.as_str();
    let new = new_class(sandbox, &args.new, findings)?;
    let path = project.dir.join(&sandbox.file);
    let text = input::read_text_in(&project.dir, &path).or_else(|error| findings.io(&error))?;
    let (mark, body) = split_mark(&text);
    let edited = format!("{mark}{}", idents::rename(body, old, &new));

    let draft = &mut options.draft;
    if is_base_name(&args.new) && args.new != sandbox.names.base {
        let names = add::names(sandbox.kind(), &args.new, findings)?;
        let to = sibling_path(&sandbox.file, &names.base, sandbox.kind().suffix());
        add::create(project, &to, edited, draft, findings)?;
        draft.remove(path, text);
        take_dockerfile(project, sandbox, &names.base, draft, findings)?;
        rename_copy_source(project, &sandboxes.list, &sandbox.names, &names.base, draft, findings)?;
    } else {
        draft.edit(path, text, edited);
    }
    if new != old {
        draft.renames.push((old.to_owned(), new));
    }
    Ok(remaining_mentions(project, sandbox, &args.new, draft))
}

/// Returns the class for the new name. A class that was derived from the file name is derived again.
fn new_class(sandbox: &Sandbox, new: &str, findings: &mut Findings) -> Result<String, Stop> {
    if is_base_name(new) {
        let follows = sandbox.class.value == sandbox::class_of(&sandbox.names);
        let names = add::names(sandbox.kind(), new, findings)?;
        return Ok(if follows { sandbox::class_of(&names) } else { sandbox.class.value.clone() });
    }
    let is_type = new.starts_with(char::is_uppercase) && syn::parse_str::<syn::Ident>(new).is_ok();
    if !is_type {
        let suggestion = Names::of_class(sandbox.kind(), new).base;
        return findings.fail(Rule::BadNewName { name: new.to_owned(), suggestion }, None);
    }
    match reserved_class(new) {
        Some(why) => {
            let rule = koze_model::Rule::ReservedClass { kind: sandbox.kind(), class: new.to_owned(), why };
            findings.fail(rule, None)
        }
        None => Ok(new.to_owned()),
    }
}

/// Renames the Dockerfile next to the sandbox, because its name selects the image.
fn take_dockerfile(
    project: &Project,
    sandbox: &Sandbox,
    base: &str,
    draft: &mut Draft,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let attributes = &sandbox.attributes;
    if attributes.image.is_some() || attributes.variant.is_some() {
        return Ok(());
    }
    for ending in [DOCKERFILE.to_owned(), format!("{DOCKERFILE}.dockerignore")] {
        let from = project.dir.join(sibling_path(&sandbox.file, &sandbox.names.base, &ending));
        let to = sibling_path(&sandbox.file, base, &ending);
        let bytes = match input::read_in(&project.dir, &from) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return findings.io(&error),
        };
        let to_path = project.dir.join(&to);
        if to_path.symlink_metadata().is_ok() {
            return findings.fail(Rule::SandboxExists { file: to }, None);
        }
        draft.create(to_path, bytes.clone());
        draft.remove(from, bytes);
    }
    Ok(())
}

/// Renames the sandbox in the `copy_from` of those that copy its files.
fn rename_copy_source(
    project: &Project,
    sandboxes: &[Sandbox],
    old: &Names,
    new: &str,
    draft: &mut Draft,
    findings: &mut Findings,
) -> Result<(), Stop> {
    for copy in sandboxes {
        let is_old = copy.attributes.copy_from.as_ref().is_some_and(|from| from.value == old.base);
        if !is_old || old.kind != Kind::Sandbox {
            continue;
        }
        let path = project.dir.join(&copy.file);
        let text = input::read_text_in(&project.dir, &path).or_else(|error| findings.io(&error))?;
        let (mark, body) = split_mark(&text);
        let change = Change::Set("copy_from", format!("copy_from = {new:?}"));
        let edited = format!("{mark}{}", attribute::edit(body, &[change]));
        draft.edit(path, text, edited);
    }
    Ok(())
}

/// Returns the path of a file with another name in the same directory.
fn sibling_path(file: &str, base: &str, ending: &str) -> String {
    match file.rsplit_once('/') {
        Some((dir, _)) => format!("{dir}/{base}{ending}"),
        None => format!("{base}{ending}"),
    }
}

/// Lists the mentions of the old names that the user has to update.
fn remaining_mentions(project: &Project, sandbox: &Sandbox, new: &str, draft: &Draft) -> Vec<String> {
    let names = &sandbox.names;
    let module = format!("generated::{}", names.module);
    let image = format!("Profile::{}", names.variant);
    let mut words = Vec::new();
    if !draft.renames.is_empty() {
        words.push(sandbox.class.value.as_str());
    }
    if is_base_name(new) && new != names.base {
        words.extend([names.accessor.as_str(), names.binding.as_str(), module.as_str()]);
        words.extend((sandbox.kind() == Kind::Sandbox).then_some(image.as_str()));
    }
    // The draft contains the renamed file, whose comments and strings are unchanged.
    show(&words, &mentions::of(project, draft, &words))
}

/// Renders a list of mentions as lines.
pub(super) fn show(words: &[&str], mentions: &[Mention]) -> Vec<String> {
    let lines: Vec<String> = mentions
        .iter()
        .map(|mention| format!("  {}:{}: {}", mention.file, mention.line, mention.text))
        .collect();
    if lines.is_empty() {
        return lines;
    }
    let head = format!("next: change these lines, which use {}", rules::listed(words));
    std::iter::once(head).chain(lines).collect()
}
