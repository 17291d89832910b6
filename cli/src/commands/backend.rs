//! `koze migrate --backend`: moves sandboxes between the SDK and koze's guest. Classes, bindings and storage are kept.

use std::fmt::Write as _;

use koze_model::attrs::Attributes;
use koze_model::image::{self, Image, ImageSource};
use koze_model::{Backend, Kind, Sandbox, rules};

use crate::build::{self, Build, Options};
use crate::discover::Project;
use crate::draft::Draft;
use crate::finding::{Findings, Stop};
use crate::images;
use crate::lock::Lock;
use crate::plan::Planned;
use crate::rules::Rule;
use crate::sdk;
use crate::source::attribute::{self, Change};
use crate::source::split_mark;
use crate::write::input;

/// The step that is left to the user of the first sandbox with koze's guest.
pub(super) const DOCKER: &str = "next: install Docker, with which wrangler builds the images";

/// What a public beta means for sandboxes whose containers a Durable Object starts.
pub(super) const BETA: &str = "note: Durable Object-managed Containers are a public beta of Cloudflare since 2026-09-30: they may change, and a class cannot go back to another backend";

/// Drafts the move of one sandbox or all of them, and returns the notes for the user.
pub(super) fn draft(
    to: Backend,
    name: Option<&str>,
    project: &Project,
    options: &mut Options,
    findings: &mut Findings,
) -> Result<Vec<String>, Stop> {
    let mut sandboxes = project.sandboxes(&Draft::default(), findings);
    findings.checked()?;
    // The application of a container keeps its policy, so its backend does not change.
    sandboxes.list.retain(|sandbox| sandbox.kind() == Kind::Sandbox);
    let lock = Lock::read(project, findings)?;
    let is_meant = |sandbox: &&Sandbox| name.is_none_or(|name| sandbox.is_named(name));
    let meant: Vec<&Sandbox> = sandboxes.list.iter().filter(is_meant).collect();
    if let (Some(name), []) = (name, meant.as_slice()) {
        let known = sandboxes.list.iter().map(|sandbox| sandbox.names.base.clone()).collect();
        return findings.fail(Rule::NoSuchSandbox { name: name.to_owned(), known }, None);
    }
    // A sandbox whose attribute was edited by hand moves, too.
    let stays = |sandbox: &Sandbox| {
        let locked = lock.class(&sandbox.class.value).is_none_or(|locked| locked.backend == to.word());
        locked && sandbox.attributes.backend() == to
    };
    let moving: Vec<&Sandbox> = meant.iter().copied().filter(|sandbox| !stays(sandbox)).collect();
    if moving.is_empty() {
        let names = name.map(str::to_owned).into_iter().collect();
        return findings.fail(Rule::NothingToMove { backend: to, names }, None);
    }
    let is_managed = |sandbox: &&Sandbox| {
        let locked = lock.class(&sandbox.class.value);
        locked.is_some_and(|locked| locked.backend == Backend::Managed.word())
    };
    let stuck: Vec<String> =
        moving.iter().copied().filter(is_managed).map(|sandbox| sandbox.class.value.clone()).collect();
    if !stuck.is_empty() {
        return findings.fail(Rule::NoWayBack { names: stuck, to }, None);
    }
    let moved: Vec<String> = moving.iter().map(|sandbox| sandbox.class.value.clone()).collect();
    let now = plan_sandboxes(options, &moved, findings)?;
    let config = build::config(project, options, findings)?;

    let mut messages = Vec::new();
    for sandbox in &moving {
        let summary = now.iter().find(|summary| summary.class == sandbox.class.value);
        let source_dir = images::directory(sandbox, project);
        let image = summary.map_or("", |summary| &summary.image);
        let image =
            images::in_attribute(image, config.dir(), &source_dir).unwrap_or_else(|| image.to_owned());
        let (changes, words) = attribute_changes(sandbox, summary, &image, to);
        messages.push(format!("`{}` now has the backend `{to}`: {words}", sandbox.class.value));
        let path = project.dir.join(&sandbox.file);
        let text = input::read_text_in(&project.dir, &path).or_else(|error| findings.io(&error))?;
        let (mark, body) = split_mark(&text);
        let edited = format!("{mark}{}", attribute::edit(body, &changes));
        if edited != text {
            options.draft.edit(path, text, edited);
        }
    }
    messages.push(
        "the next deployment replaces the running containers, and files in them are lost; classes, bindings and storage do not change"
            .to_owned(),
    );
    if to == Backend::Managed {
        messages.extend(managed_notes(&moving, &lock));
    }
    messages.extend(next_steps(to, &moving, &now));
    options.draft.moved = moved;
    Ok(messages)
}

/// Returns the sandboxes as a build plans them today.
pub(super) fn plan_sandboxes(
    options: &Options,
    moved: &[String],
    findings: &mut Findings,
) -> Result<Vec<Planned>, Stop> {
    let draft = Draft { moved: moved.to_vec(), ..Draft::default() };
    let options = Options { write: false, draft, ..options.clone() };
    let mut build = Build::default();
    let mut found = Findings::default();
    let done = build::run(&options, &mut build, &mut found);
    if done.is_err() {
        // The build that follows reports the warnings again.
        found.iter().for_each(|finding| findings.push(finding.clone()));
    }
    done.map(|()| build.sandboxes)
}

/// Returns the changes to a sandbox's attribute and a description of its image. `image` is the attribute value for it.
fn attribute_changes(
    sandbox: &Sandbox,
    now: Option<&Planned>,
    image: &str,
    to: Backend,
) -> (Vec<Change>, String) {
    let attributes = &sandbox.attributes;
    match to {
        Backend::Native | Backend::Managed => to_own_guest(to, attributes, now, image),
        Backend::Sdk => to_sdk(attributes),
    }
}

/// Keeps the image; koze's guest is added to it.
pub(super) fn to_own_guest(
    to: Backend,
    attributes: &Attributes,
    now: Option<&Planned>,
    image: &str,
) -> (Vec<Change>, String) {
    let entry = format!("image = {image:?}");
    let mut changes = Vec::new();
    match now.map(|now| now.image_source) {
        Some(ImageSource::Variant) => changes.push(Change::Replace("variant", entry)),
        Some(ImageSource::Default | ImageSource::Configuration) => changes.push(Change::Set("image", entry)),
        _ => {}
    }
    if attributes.backend.is_none() || attributes.backend() != to {
        changes.push(Change::Set("backend", format!("backend = \"{to}\"")));
    }
    let image = now.map_or("", |now| now.image.as_str());
    let mut words = format!("its image is {image}, with koze's guest added");
    if to == Backend::Managed {
        let removed = remove_scheduled_keys(attributes, now, &mut changes);
        if !removed.is_empty() {
            let removed: Vec<&str> = removed.iter().map(String::as_str).collect();
            let _ = write!(
                words,
                "; {} changed: Durable Object-managed Containers do not have what was there",
                rules::listed(&removed)
            );
        }
    }
    (changes, words)
}

/// Changes the keys that Durable Object-managed Containers do not have, and returns them. An application keeps its policy, so
/// an explicit name changes, too.
fn remove_scheduled_keys(
    attributes: &Attributes,
    now: Option<&Planned>,
    changes: &mut Vec<Change>,
) -> Vec<String> {
    let mut removed = Vec::new();
    let mut change = |key: &'static str, change: Change| {
        removed.push(key.to_owned());
        changes.push(change);
    };
    if attributes.constraints.is_some() {
        change("constraints", Change::Remove("constraints"));
    }
    if attributes.rollout_step_percentage.is_some() {
        change("rollout_step_percentage", Change::Remove("rollout_step_percentage"));
    }
    if attributes.rollout_active_grace_period.is_some() {
        change("rollout_active_grace_period", Change::Remove("rollout_active_grace_period"));
    }
    if attributes.instance_type.as_ref().is_some_and(|name| name.value == "basic") {
        let size = "instance(vcpu = 1, memory_mib = 3072, disk_mb = 4000)";
        change("instance_type", Change::Replace("instance_type", size.to_owned()));
    }
    if attributes.name.is_some()
        && let Some(now) = now
    {
        changes.push(Change::Set("name", format!("name = \"{}-managed\"", now.container)));
    }
    removed
}

/// Returns what a move to the backend `managed` means.
fn managed_notes(moving: &[&Sandbox], lock: &Lock) -> Vec<String> {
    let mut former = Vec::new();
    for sandbox in moving {
        let Some(locked) = lock.class(&sandbox.class.value) else { continue };
        former.push(locked.container.as_str());
        former.extend(locked.environments.values().map(|entry| entry.container.as_str()));
    }
    former.retain(|name| !name.is_empty());
    let mut notes = vec![
        "the applications have new names, because the policy of an application cannot change; once deployed, the move cannot be undone, not even by `wrangler rollback`"
            .to_owned(),
        BETA.to_owned(),
        "next: rehearse the deployment with a Worker for staging: Cloudflare's pages contradict each other on whether a class can keep its storage in such a move"
            .to_owned(),
    ];
    if !former.is_empty() {
        notes.push(format!(
            "next: after the deployment, delete {}, which run and are billed until then: `npx wrangler containers list` shows the IDs for `npx wrangler containers delete ID`",
            rules::listed(&former)
        ));
    }
    notes
}

/// Resets the image unless it is one of the SDK's: only those contain its server.
fn to_sdk(attributes: &Attributes) -> (Vec<Change>, String) {
    let mut changes = vec![Change::Remove("backend"), Change::Remove("entrypoint")];
    let words = match attributes.image.as_ref().map(|image| &image.value) {
        Some(Image::Registry(reference)) => {
            changes.push(match image::variant(reference) {
                Some(variant) => Change::Replace("image", format!("variant = {variant:?}")),
                None => Change::Remove("image"),
            });
            format!("its image is the SDK's, and no longer {reference}")
        }
        Some(Image::Dockerfile(path)) => format!("its image is built from {path} only"),
        Some(Image::Platform) => {
            changes.push(Change::Remove("image"));
            "its image is the SDK's".to_owned()
        }
        None => "its image is built from the Dockerfile next to it only".to_owned(),
    };
    (changes, words)
}

/// Returns the steps that are left to the user.
fn next_steps(to: Backend, moving: &[&Sandbox], all: &[Planned]) -> Vec<String> {
    let mut lines = Vec::new();
    match to {
        Backend::Native | Backend::Managed => {
            lines.push(DOCKER.to_owned());
            let of_sdk = |summary: &&Planned| {
                let moves = moving.iter().any(|sandbox| sandbox.class.value == summary.class);
                moves && image::is_default_repository(&summary.image)
            };
            if all.iter().any(|summary| of_sdk(&summary)) {
                lines.push(format!(
                    "next: change to other images, such as `python:3.12-slim`: those of {} 0.x get fixes only until {}",
                    sdk::PACKAGE,
                    sdk::END_OF_FIXES
                ));
            }
            let stays = |summary: &Planned| {
                summary.backend == Backend::Sdk
                    && moving.iter().all(|sandbox| sandbox.class.value != summary.class)
            };
            let leaves = |summary: &Planned| {
                summary.backend == Backend::Sdk
                    && moving.iter().any(|sandbox| sandbox.class.value == summary.class)
            };
            if all.iter().any(leaves) && !all.iter().any(stays) {
                lines.push(format!(
                    "next: remove {0}, which the Worker no longer needs: `npm uninstall {0}`",
                    sdk::PACKAGE
                ));
            }
        }
        Backend::Sdk => {
            let own = |summary: &&Planned| {
                summary.dockerfile().is_some()
                    && moving.iter().any(|sandbox| sandbox.class.value == summary.class)
            };
            let own: Vec<&str> = all.iter().filter(own).filter_map(Planned::dockerfile).collect();
            if !own.is_empty() {
                lines.push(format!(
                    "next: base {} on the SDK's image of the installed version, `{}`",
                    rules::listed(&own),
                    image::DEFAULT_REPOSITORY
                ));
            }
        }
    }
    lines
}
