//! Computes the changes of a build: takes the project and the files on disk, returns the new content of every file.
//! Writes nothing.
//!
//! | module | job |
//! |---|---|
//! | `fate` | determines what happened to the classes since the last build |
//! | `storage` | plans migrations or exports |
//! | `entries` | plans containers and bindings |
//! | `guests` | plans the files that images with koze's guest are built from |
//! | `own` | plans koze's own classes |
//! | `sandbox` | holds a sandbox and what the other modules decide about it |
//! | `links` | keeps the links from `exports` to containers |
//! | `leftovers` | reports the user's entries for classes that no longer exist |
//! | `blocks` | removes koze's blocks with their last entry |
//! | `surroundings` | warns about settings that koze does not write |

mod blocks;
mod browser;
mod buckets;
mod entries;
mod fate;
mod guests;
mod leftovers;
mod links;
mod own;
mod sandbox;
mod storage;
mod surroundings;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use koze_core::Profiles;
use koze_edit::{Document, Edit};
use koze_model::{Backend, Sandbox};

use self::fate::Fate;
use self::links::Links;
use self::sandbox::Planning;
use crate::discover::{Project, Sandboxes};
use crate::draft::Draft;
use crate::draft::Storage;
use crate::finding::{Findings, Place, Stop};
use crate::generate;
use crate::images::{self, Resolved, Surroundings, guest};
use crate::lock::{self, Lock, Locked};
use crate::own::Own;
use crate::paths;
use crate::rules::Rule;
use crate::sdk::Sdk;
use crate::wrangler::bindings;
use crate::wrangler::blocks::Wanted;
use crate::wrangler::level::Level;
use crate::wrangler::lifecycle;
use crate::wrangler::locate::{Config, Origin};
use crate::wrangler::scope;
use crate::wrangler::typescript;
use crate::write::{Action, Change, Content};

pub use sandbox::Planned;

/// The inputs of the plan.
pub struct Inputs<'a> {
    /// The package.
    pub project: &'a Project,
    /// Its sandboxes.
    pub sandboxes: &'a Sandboxes,
    /// The wrangler configuration.
    pub config: &'a Config,
    /// The contents of `koze.lock`.
    pub lock: &'a Lock,
    /// The SDK version; `None` if no sandbox needs it.
    pub sdk: Option<&'a Sdk>,
    /// The changes of the command.
    pub draft: &'a Draft,
    /// The classes that the user asked to remove, and what happens to their storage.
    pub removal: Option<(&'a [String], Storage)>,
}

impl Inputs<'_> {
    /// Returns the classes to remove with this treatment of their storage.
    fn removed_classes(&self, storage: Storage) -> impl Iterator<Item = &str> {
        let classes =
            self.removal.filter(|(_, fate)| *fate == storage).map_or(&[][..], |(classes, _)| classes);
        classes.iter().map(String::as_str)
    }

    /// Returns whether the user asked to remove a class without keeping its storage.
    fn is_dropped(&self, class: &str) -> bool {
        self.is_removed(class, Storage::Delete) || self.is_removed(class, Storage::Never)
    }

    /// Returns whether the user asked to remove a class with this treatment of its storage.
    fn is_removed(&self, class: &str, storage: Storage) -> bool {
        self.removed_classes(storage).any(|removed| removed == class)
    }
}

/// The changes of a build.
#[derive(Debug)]
pub struct Plan {
    /// Every file that koze writes, in the order of writing; `koze.lock` is last.
    pub changes: Vec<Change>,
    /// The sandboxes, in the order of their files.
    pub sandboxes: Vec<Planned>,
    /// The images that agents may name, and the hosts that scripts may reach; `None` if the project serves no tools.
    pub offered: Option<Profiles>,
    /// Notes for the user: what was adopted, renamed, removed.
    pub notes: Vec<String>,
}

/// Reports findings that apply to a project without sandboxes.
///
/// # Errors
/// Returns [`Stop`] if there are errors.
pub fn of_nothing(project: &Project, config: &Config, findings: &mut Findings) -> Result<(), Stop> {
    for scope in &scope::all(config, project, findings)? {
        surroundings::check_legacy(&Level::new(scope), config, findings);
    }
    findings.checked()
}

/// Computes the plan, in this order, because each step needs what the earlier ones found:
///
/// 1. what the configuration says of classes, which must agree with the lock;
/// 2. the fate of each class since the last build: new, renamed, moved or gone;
/// 3. the image of each sandbox;
/// 4. the edits of containers and bindings, at each level of the configuration;
/// 5. the edits of migrations or exports;
/// 6. the new lock, and from it and the edited configuration every generated file.
///
/// Findings are collected within a step, so that a user sees all errors of one kind at once; the next step starts only
/// without errors.
///
/// # Errors
/// Returns [`Stop`] if there are errors.
pub fn make(inputs: &Inputs, findings: &mut Findings) -> Result<Plan, Stop> {
    let Inputs { project, config, lock, sdk, .. } = inputs;
    let sandboxes = inputs.sandboxes.list.as_slice();
    let scopes = scope::all(config, project, findings)?;
    let lifecycles = lifecycle::all(config, &scopes, lock, findings)?;
    lifecycle::check_owner(&lifecycles, lock, config, findings)?;
    lifecycle::check_lists(&lifecycles, &scopes, lock, config, findings);
    for lifecycle in &lifecycles {
        lifecycle.check_tags(lock, config, findings);
    }
    findings.checked()?;

    let fate = fate::resolve(inputs, &lifecycles, findings);
    let mut notes = Vec::new();
    let around = Surroundings {
        project,
        sandboxes: inputs.sandboxes,
        config_dir: config.dir(),
        sdk: *sdk,
        draft: inputs.draft,
    };
    let images: Vec<Vec<Resolved>> =
        sandboxes.iter().map(|sandbox| images::resolve(sandbox, around, findings)).collect();
    findings.checked()?;

    let managed: HashSet<&str> = scopes.iter().filter_map(|scope| scope.environment.as_deref()).collect();
    let locked: HashMap<&str, &Locked> =
        lock.sandboxes.iter().map(|locked| (locked.class.as_str(), locked)).collect();
    let mut planning: Vec<Planning> = sandboxes
        .iter()
        .zip(images)
        .map(|(sandbox, images)| {
            let class = sandbox.class.value.as_str();
            let old = fate.old(class);
            let locked = locked.get(class).or_else(|| locked.get(old?)).copied();
            let kept = lock.kept.iter().find(|kept| kept.class == class || Some(kept.class.as_str()) == old);
            let place = inputs.sandboxes.place(sandbox, sandbox.class.span);
            check_max_instances(inputs, sandbox, findings);
            check_backend(inputs, sandbox, locked, findings);
            let source_dir = images::directory(sandbox, project);
            Planning::new(Wanted { sandbox, images, source_dir, locked, kept, old, place }, &managed)
        })
        .collect();
    let mut edits = inputs.draft.settings.clone();
    let mut made = lock.blocks.clone();
    let mut links = Links::default();
    for scope in &scopes {
        let level = Level::new(scope);
        let mut more = entries::of_level(&level, &mut planning, &fate, config, &mut notes, findings);
        links.reconcile(&level, &planning, &fate, config, findings);
        for own in Own::ALL {
            more.extend(own::edits(own, inputs, &level, &lifecycles, &mut notes, findings));
        }
        more.extend(buckets::edits(inputs, &level, &mut notes, findings));
        more.extend(browser::edits(inputs, &level, &mut made, &mut notes, findings));
        edits.extend(blocks::tidy(scope, config, more, &mut made));
        surroundings::check(inputs, &level, findings);
    }
    // Add new blocks in reading order: containers, bindings, then migrations.
    let storage::Outcome { edits: more, tags, new, new_own, notes: renames, dead } =
        storage::edits(&lifecycles, inputs, &fate, &links, findings);
    leftovers::check(&scopes, &lifecycles, &dead, &edits, config, findings);
    let tidy = |more, scope| blocks::tidy(scope, config, more, &mut made);
    edits.extend(scopes.iter().fold(more, tidy));
    notes.splice(0..0, inputs.draft.notes.iter().cloned().chain(renames));
    findings.checked()?;

    let mut new_lock = Lock::new();
    new_lock.config = config.named.then(|| config.shown.clone());
    new_lock.default = default_sandbox(sandboxes, lock, &fate);
    new_lock.blocks = made;
    new_lock.migrations = tags;
    new_lock.kept = fate.kept(lock);
    for (own, new) in Own::ALL.into_iter().zip(new_own) {
        new_lock.set_own(own, own::locked(own, inputs, &lifecycles, new));
    }
    if let Some(sdk) = sdk {
        for kept in planning.iter().filter_map(|sandbox| sandbox.kept_images.get(&None)) {
            images::check_kept(kept, config.dir(), project, sdk, findings);
        }
    }
    let container = |class: &str| scopes[0].default_container(class, config.document.value());
    let environments = || scopes.iter().filter_map(|scope| scope.environment.as_ref());
    let (locked, planned) = planning
        .iter_mut()
        .map(|sandbox| {
            let locked = sandbox.locked(&lifecycles, new.as_deref());
            let planned = sandbox.planned(&locked, container, environments());
            (locked, planned)
        })
        .unzip();
    new_lock.sandboxes = locked;
    let images = || planning.iter().map(|sandbox| (sandbox.sandbox(), sandbox.images()));
    let offered = images::offered(images(), new_lock.default.as_deref());
    let offered = match project.worker_scripts() {
        Some(scripts) => Some(scripts.add_to(offered.unwrap_or_else(Profiles::of_scripts))),
        None => offered,
    };
    let offered = offered.map(|offered| offered.with_journal(inputs.project.journal));
    let guests = guests::files(images().flat_map(|(_, images)| images));
    let changes = file_changes(inputs, &edits, new_lock, guests, offered.as_ref(), &mut notes, findings)?;
    Ok(Plan { changes, sandboxes: planned, offered, notes })
}

/// Reports a limit that neither the platform nor the registry enforces.
fn check_max_instances(inputs: &Inputs, sandbox: &Sandbox, findings: &mut Findings) {
    let Some(most) = &sandbox.attributes.max_instances else { return };
    if sandbox.attributes.backend() == Backend::Managed && !inputs.project.registry {
        let rule = Rule::UnlimitedInstances { class: sandbox.class.value.clone() };
        findings.add(rule, Some(inputs.sandboxes.place(sandbox, most.span)));
    }
}

/// Reports a class whose backend was changed in the source only. Changing it removes the containers, so it takes a
/// command.
fn check_backend(inputs: &Inputs, sandbox: &Sandbox, locked: Option<&Locked>, findings: &mut Findings) {
    let Some(locked) = locked else { return };
    let (class, attributes) = (&sandbox.class, &sandbox.attributes);
    let to = attributes.backend();
    let draft = inputs.draft;
    if locked.backend == to.word() || draft.allows_other_backends || draft.moved.contains(&class.value) {
        return;
    }
    let span = attributes.backend.as_ref().map_or(class.span, |backend| backend.span);
    let rule = Rule::BackendChanged {
        kind: sandbox.kind(),
        class: class.value.clone(),
        name: sandbox.names.base.clone(),
        from: locked.backend.clone(),
        to,
    };
    findings.add(rule, Some(inputs.sandboxes.place(sandbox, span)));
}

/// Returns the first sandbox ever built among those that serve agents: the one that an agent gets by default if no
/// attribute has the key `default`.
fn default_sandbox(sandboxes: &[Sandbox], lock: &Lock, fate: &Fate) -> Option<String> {
    let served = || sandboxes.iter().filter(|sandbox| images::serves(sandbox));
    let first =
        lock.default.as_ref().and_then(|name| lock.sandboxes.iter().find(|locked| locked.name == *name));
    let still = first.and_then(|first| {
        let same = |sandbox: &&Sandbox| {
            let class = sandbox.class.value.as_str();
            class == first.class || fate.old(class) == Some(&first.class)
        };
        served().find(same)
    });
    still.or_else(|| served().next()).map(|sandbox| sandbox.names.base.clone())
}

/// Returns the new content of every file, in the order of writing: sources first and `koze.lock` last. If koze is killed
/// in between, the next build finds the sources that it was about to build and the lock of the build before, and does the
/// rest.
///
/// # Panics
/// Never: edited configurations parse.
fn file_changes(
    inputs: &Inputs,
    edits: &[Edit],
    mut new_lock: Lock,
    guests: Vec<(PathBuf, Content)>,
    offered: Option<&Profiles>,
    notes: &mut Vec<String>,
    findings: &mut Findings,
) -> Result<Vec<Change>, Stop> {
    let Inputs { project, config, lock, .. } = inputs;
    let sandboxes = inputs.sandboxes.list.as_slice();
    let mut changes = Vec::new();
    // Write sources first, so that after an interruption the next build starts from what they declare.
    for drafted in &inputs.draft.files {
        let shown = paths::relative(&drafted.path, &project.dir);
        // Compare with the content that the command started from, not with the current one.
        let (before, after) = (drafted.before.clone(), drafted.after.clone());
        match Change::since(&project.dir, &drafted.path, shown, before, after) {
            Ok(change) => changes.push(change),
            Err(error) => return findings.io(&error),
        }
    }
    let text = if edits.is_empty() {
        Cow::Borrowed(config.document.text())
    } else {
        Cow::Owned(config.document.apply(edits))
    };
    let is_edited = text != config.document.text();
    let is_changed = is_edited || matches!(config.origin, Origin::Template | Origin::Edited);
    // Read the bindings from the edited text, so that the next build finds the same ones.
    let edited = is_edited
        .then(|| Document::parse(config.document.format(), text.as_ref()).expect("what koze edited parses"));
    let bindings = bindings::all(edited.as_ref().unwrap_or(&config.document).value());
    let config_change = if is_changed {
        let content = text.into_owned().into_bytes().into();
        Change::of_named(config.target.clone(), config.shown.clone(), content)
    } else {
        Ok(Change::none(config.target.clone(), config.shown.clone()))
    };
    // A file without content stays as it is.
    let mut files: Vec<(PathBuf, Option<Content>)> = Vec::new();
    let generated = project.dir.join(generate::DIR);
    if generated.exists() && !generated.is_dir() {
        let path = generate::DIR.to_owned();
        return findings.fail(Rule::NotOurs { path: path.clone() }, Some(Place::file(path)));
    }
    let kept: Vec<&str> = new_lock.kept.iter().map(|kept| kept.class.as_str()).collect();
    for (name, content) in generate::files(generate::Inputs {
        sandboxes,
        kept: &kept,
        bindings: &bindings,
        offered,
        registry: project.registry,
    }) {
        files.push((generated.join(name), Some(content)));
    }
    if typescript::exists(project) {
        let managed: Vec<&str> = sandboxes
            .iter()
            .filter(|sandbox| sandbox.attributes.backend() == Backend::Managed)
            .map(|sandbox| sandbox.class.value.as_str())
            .collect();
        let root = edited.as_ref().unwrap_or(&config.document).value();
        let module = typescript::render_containers(root, &managed, config.dir(), &project.dir);
        notes.push(typescript::note(config, module.is_some()));
        files.extend(module.map(|text| (generated.join(typescript::MODULE), Some(text.into_bytes().into()))));
    }
    new_lock.files = guests.iter().map(|(path, _)| paths::relative(path, &project.dir)).collect();
    changes.extend(guests::leftovers(project, lock, &new_lock, &files, findings)?);
    match config_change {
        Ok(change) => changes.push(change),
        Err(error) => return findings.io(&error),
    }
    files.extend(guests.into_iter().map(|(path, content)| (path, Some(content))));
    let lock_content = new_lock.render_after(lock).map(|text| text.into_bytes().into());
    files.push((project.dir.join(lock::FILE), lock_content));
    for (path, content) in files {
        let shown = paths::relative(&path, &project.dir);
        // Files that koze creates must not be links.
        if path.is_symlink() {
            findings.add(Rule::NotOurs { path: shown.clone() }, Some(Place::file(shown)));
            continue;
        }
        let change = match content {
            Some(content) => Change::of(guests::root(&path, project), &path, shown, Some(content)),
            None => Ok(Change::none(path.clone(), shown)),
        };
        let change = match change {
            Ok(change) => change,
            Err(error) => return findings.io(&error),
        };
        let name = path.file_name().unwrap_or_default();
        let foreign = change.before.as_deref().is_some_and(|before| !generate::is_ours(name, before));
        let foreign = match (path.starts_with(&generated), guest::is_guest(&path)) {
            // The guest has no header. Outside the generated directory, the lock records whether koze wrote it.
            (false, true) => change.action() == Action::Update && !lock.files.contains(&change.shown),
            (true, true) | (false, false) => false,
            (true, false) => foreign,
        };
        if foreign {
            findings
                .add(Rule::NotOurs { path: change.shown.clone() }, Some(Place::file(change.shown.clone())));
        }
        changes.push(change);
    }
    findings.checked()?;
    Ok(changes)
}
