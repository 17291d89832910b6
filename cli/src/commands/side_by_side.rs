//! `koze migrate --backend managed --side-by-side`: adds a sandbox with the backend `managed` whose objects copy the files of
//! another sandbox. The other one is unchanged.

use koze_model::image::{ImageSource, PLATFORM_IMAGE};
use koze_model::names::Names;
use koze_model::{Backend, Kind, Sandbox, rules, sandbox};

use super::{add, backend};
use crate::build::{self, Options};
use crate::discover::Project;
use crate::draft::Draft;
use crate::finding::{Findings, Stop};
use crate::images;
use crate::plan::Planned;
use crate::rules::Rule;
use crate::source::attribute::{self, Change};
use crate::source::split_mark;
use crate::wrangler::scope;
use crate::write::input;

/// What is appended to the name of the file.
const SUFFIX: &str = "-managed";

/// Drafts the file of the new sandbox, and returns the notes for the user.
pub(super) fn draft(
    name: Option<&str>,
    project: &Project,
    options: &mut Options,
    findings: &mut Findings,
) -> Result<Vec<String>, Stop> {
    let sandboxes = project.sandboxes(&Draft::default(), findings);
    findings.checked()?;
    let old = find_source(name, &sandboxes.list, findings)?;
    let all = backend::plan_sandboxes(options, &[], findings)?;
    let planned = all.iter().find(|planned| planned.class == old.class.value);
    let config = build::config(project, options, findings)?;
    let path = project.dir.join(&old.file);
    let text = input::read_text_in(&project.dir, &path).or_else(|error| findings.io(&error))?;

    let names = add::names(Kind::Sandbox, &format!("{}{SUFFIX}", old.names.base), findings)?;
    let class = sandbox::class_of(&names);
    let image = planned.map_or("", |planned| &planned.image);
    let image = images::in_attribute(image, config.dir(), &images::directory(old, project))
        .unwrap_or_else(|| image.to_owned());
    let (mut changes, mut words) = backend::to_own_guest(Backend::Managed, &old.attributes, planned, &image);
    changes.extend(new_sandbox_changes(old, planned, &image));
    if old.attributes.max_instances.is_some() && !project.registry {
        changes.push(Change::Remove("max_instances"));
        words.push_str("; `max_instances` is left out, because it needs the registry");
    }
    let (_, body) = split_mark(&text);
    let mut keys = attribute::entries(&attribute::edit(body, &changes));
    let scopes = scope::all(&config, project, findings)?;
    let application = add::container(&names, &class, project, &config, &scopes, findings)?;
    keys.extend(application.map(|name| format!("name = {name:?}")));
    let dir = old.file.rsplit_once('/').map_or("", |(dir, _)| dir);
    let file = format!("{dir}/{}{}", names.base, Kind::Sandbox.suffix());
    add::create(project, &file, add::text(Kind::Sandbox, &keys, &class), &mut options.draft, findings)?;

    let mut messages = vec![format!("`{class}` has the backend `{}`: {words}", Backend::Managed)];
    messages.extend(notes(old, &names, &file, &class));
    if image != PLATFORM_IMAGE {
        messages.push(backend::DOCKER.to_owned());
    }
    Ok(messages)
}

/// Returns the sandbox to copy from: the named one, or the only one that can move.
fn find_source<'a>(
    name: Option<&str>,
    list: &'a [Sandbox],
    findings: &mut Findings,
) -> Result<&'a Sandbox, Stop> {
    let moves = |sandbox: &&Sandbox| sandbox.attributes.backend() != Backend::Managed;
    let all: Vec<&Sandbox> = add::sandboxes_only(list).collect();
    let old = if let Some(name) = name {
        let is_meant = |sandbox: &&Sandbox| sandbox.is_named(name);
        let Some(old) = all.iter().copied().find(is_meant) else {
            let known = all.iter().map(|sandbox| sandbox.names.base.clone()).collect();
            return findings.fail(Rule::NoSuchSandbox { name: name.to_owned(), known }, None);
        };
        if !moves(&old) {
            let rule = Rule::NothingToMove { backend: Backend::Managed, names: vec![name.to_owned()] };
            return findings.fail(rule, None);
        }
        old
    } else {
        let moving: Vec<&Sandbox> = all.iter().copied().filter(moves).collect();
        match moving.as_slice() {
            [] => {
                let rule = Rule::NothingToMove { backend: Backend::Managed, names: Vec::new() };
                return findings.fail(rule, None);
            }
            [old] => *old,
            several => {
                let names: Vec<&str> = several.iter().map(|sandbox| sandbox.names.base.as_str()).collect();
                let why = "several sandboxes can move, and one moves at a time".to_owned();
                let remedy = format!("name one of {}", rules::listed(&names));
                return findings.fail(Rule::NotSideBySide { why, remedy }, None);
            }
        }
    };
    let copies = |sandbox: &&Sandbox| {
        sandbox.attributes.copy_from.as_ref().is_some_and(|from| from.value == old.names.base)
    };
    if let Some(copy) = all.iter().copied().find(copies) {
        let why = format!("`{}` already copies the files of `{}`", copy.names.base, old.names.base);
        let remedy = "there is nothing to migrate: deploy it, and use it instead of the other one".to_owned();
        return findings.fail(Rule::NotSideBySide { why, remedy }, None);
    }
    Ok(old)
}

/// Returns the changes to the attribute because it becomes that of another sandbox.
fn new_sandbox_changes(old: &Sandbox, planned: Option<&Planned>, image: &str) -> Vec<Change> {
    let mut changes = vec![
        Change::Set("copy_from", format!("copy_from = {:?}", old.names.base)),
        Change::Remove("default"),
        Change::Remove("renamed_from"),
        Change::Remove("name"),
    ];
    // A Dockerfile next to the file of the other one is not found by the name of this one.
    if planned.is_some_and(|planned| planned.image_source == ImageSource::SiblingDockerfile) {
        changes.push(Change::Set("image", format!("image = {image:?}")));
    }
    changes
}

/// Returns what the new sandbox means, and the steps that are left to the user.
fn notes(old: &Sandbox, names: &Names, file: &str, class: &str) -> Vec<String> {
    let base = &old.names.base;
    let mut notes = vec![
        format!(
            "when an object of `{class}` is opened for the first time, it copies the files of the object of `{}` with the same name, if that one is awake; `{base}` stays as it is",
            old.class.value
        ),
        backend::BETA.to_owned(),
        format!(
            "next: use `env.{}()` where the Worker uses `env.{}()`; agents choose `{}` as the image of a new sandbox",
            names.accessor, old.names.accessor, names.base
        ),
    ];
    if old.attributes.default.is_some() {
        notes.push(format!(
            "next: move `default` from {} to {file} when new sessions should use it",
            old.file
        ));
    }
    notes.push(format!(
        "next: when nothing uses `{base}` any more, remove `copy_from` from {file}, delete {}, and run `koze remove {base} --delete-storage`",
        old.file
    ));
    notes
}
