//! What a build would change: the project and its disk in, the new content of every file out. Nothing is written here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use koze_model::{Rule, Sandbox};

use crate::classes::{self, Fate};
use crate::discover::{Project, Sandboxes};
use crate::finding::{Findings, Place, Stop};
use crate::generate;
use crate::images::{self, Resolved};
use crate::lock::{self, Lock, Locked};
use crate::paths;
use crate::sdk::Sdk;
use crate::wrangler::blocks::{self, Wanted};
use crate::wrangler::document::{Edit, Step};
use crate::wrangler::lifecycle::{self, Lifecycle};
use crate::wrangler::locate::Config;
use crate::wrangler::scope::{self, Scope};
use crate::write::Change;

/// What the plan is made from.
pub struct Inputs<'a> {
    /// The package.
    pub project: &'a Project,
    /// Its sandboxes.
    pub sandboxes: &'a Sandboxes,
    /// The wrangler configuration.
    pub config: &'a Config,
    /// What koze owns in it.
    pub lock: &'a Lock,
    /// The SDK version.
    pub sdk: &'a Sdk,
    /// Classes whose storage the user said to delete.
    pub deletions: &'a [String],
}

/// What a build would change.
#[derive(Debug)]
pub struct Plan {
    /// Every file koze writes, in the order of writing; `koze.lock` last.
    pub changes: Vec<Change>,
    /// The image of each sandbox, in the order of the sandboxes.
    pub images: Vec<Resolved>,
    /// The container application of each sandbox at the top level.
    pub containers: Vec<String>,
    /// What was taken over from the user, as half sentences.
    pub adopted: Vec<String>,
}

/// Computes the plan.
pub fn make(inputs: &Inputs, findings: &mut Findings) -> Result<Plan, Stop> {
    let Inputs { project, config, lock, sdk, deletions, .. } = inputs;
    let sandboxes = inputs.sandboxes.list.as_slice();
    let scopes = scope::all(config, project, findings)?;
    let lifecycles = lifecycle::all(config, &scopes, findings)?;
    for lifecycle in &lifecycles {
        lifecycle.check_tags(lock, config, findings);
    }
    findings.checked()?;

    let images: Vec<Resolved> = sandboxes
        .iter()
        .map(|sandbox| images::resolve(sandbox, project, config.dir(), sdk, findings))
        .collect();
    let fate = classes::resolve(inputs.sandboxes, lock, &lifecycles, deletions, config, findings);
    findings.checked()?;

    let mut new_lock = Lock::new();
    new_lock.default = default(sandboxes, lock, &fate);
    // New blocks stand in the order in which they are read: containers, bindings, then migrations.
    let mut edits = Vec::new();
    let class_edits = classes_of(&lifecycles, inputs, &fate, &mut new_lock, findings);
    let mut adopted = Vec::new();
    let wanted: Vec<Wanted> = sandboxes
        .iter()
        .zip(&images)
        .map(|(sandbox, image)| {
            let old = fate.old(&sandbox.class.value);
            let locked = lock.class(&sandbox.class.value).or_else(|| lock.class(old?));
            let place = inputs.sandboxes.place(sandbox, sandbox.class.span);
            Wanted { sandbox, image, source_dir: images::directory(sandbox, project), locked, old, place }
        })
        .collect();
    let mut entries: Vec<Owned> = wanted.iter().map(Owned::new).collect();
    for scope in &scopes {
        edits.extend(blocks_of(scope, &wanted, &fate, config, &mut entries, &mut adopted, findings));
    }
    edits.extend(class_edits);
    findings.checked()?;

    new_lock.sandboxes = wanted
        .iter()
        .zip(entries)
        .map(|(wanted, owned)| owned.locked(wanted, &lifecycles, &new_lock))
        .collect();
    let containers = new_lock.sandboxes.iter().map(|locked| locked.container.clone()).collect();
    let changes = outputs(inputs, &edits, &new_lock, findings)?;
    Ok(Plan { changes, images, containers, adopted })
}

/// The edits of migrations or exports; the lock gets the tags that koze answers for.
fn classes_of(
    lifecycles: &[Lifecycle],
    inputs: &Inputs,
    fate: &Fate,
    new_lock: &mut Lock,
    findings: &mut Findings,
) -> Vec<Edit> {
    let declared: Vec<&str> =
        inputs.sandboxes.list.iter().map(|sandbox| sandbox.class.value.as_str()).collect();
    let mut edits = Vec::new();
    for lifecycle in lifecycles {
        for class in &declared {
            let former = fate.old(class).unwrap_or(class);
            if let Some(live) = lifecycle.live.get(*class).or_else(|| lifecycle.live.get(former))
                && !live.sqlite
            {
                let rule = Rule::Contradiction {
                    message: format!("the class `{class}` was made without SQLite, which containers need"),
                    remedy:
                        "a class keeps the storage it was made with: give the sandbox's struct another name"
                            .to_owned(),
                };
                findings.add(rule, lifecycle.place(former, inputs.config));
            }
        }
        let changes = lifecycle.changes(&declared, &fate.renames, inputs.deletions);
        let (more, tag) = lifecycle.edits(&changes);
        edits.extend(more);

        let mut tags: Vec<lock::Tag> = inputs
            .lock
            .migrations
            .iter()
            .filter(|tag| tag.environment == lifecycle.environment)
            .cloned()
            .collect();
        for class in &declared {
            let made = lifecycle.live.get(*class).and_then(|live| lifecycle.tag(live.tag.as_deref()?));
            tags.extend(made.filter(|made| !tags.contains(made)));
        }
        tags.extend(tag);
        new_lock.migrations.extend(tags);
    }
    edits
}

/// The edits of containers and bindings at one level.
fn blocks_of(
    scope: &Scope,
    wanted: &[Wanted],
    fate: &Fate,
    config: &Config,
    entries: &mut [Owned],
    adopted: &mut Vec<String>,
    findings: &mut Findings,
) -> Vec<Edit> {
    let mut edits = Vec::new();
    let bindings = scope.list(&["durable_objects", "bindings"]);
    let moving: BTreeSet<usize> = wanted.iter().filter_map(|wanted| wanted.own_binding(bindings)).collect();
    for (wanted, owned) in wanted.iter().zip(entries) {
        let container = wanted.reconcile_container(scope, config, findings);
        let binding = wanted.reconcile_binding(scope, &moving, config, findings);
        edits.extend(container.edits.into_iter().chain(binding.edits));
        adopted.extend(container.adopted.into_iter().chain(binding.adopted));
        if let Some(entry) = container.entry {
            owned.0.insert(scope.environment.clone(), entry);
        }
    }
    for locked in &fate.dropped {
        let (containers, bindings) = blocks::remove(locked, scope);
        let keys = [Step::from("durable_objects"), Step::from("bindings")];
        let remove = |keys: &[Step], index: usize| {
            let mut path = scope.path(keys);
            path.push(Step::from(index));
            Edit::Remove { path }
        };
        edits.extend(containers.into_iter().map(|index| remove(&[Step::from("containers")], index)));
        edits.extend(bindings.into_iter().map(|index| remove(&keys, index)));
    }
    edits
}

/// The container entries of a sandbox, by environment.
struct Owned(BTreeMap<Option<String>, lock::Entry>);

impl Owned {
    /// Entries of environments that koze does not look at this time stay recorded.
    fn new(wanted: &Wanted) -> Self {
        let environments = wanted.locked.map(|locked| locked.environments.clone()).unwrap_or_default();
        Owned(environments.into_iter().map(|(environment, entry)| (Some(environment), entry)).collect())
    }

    fn locked(mut self, wanted: &Wanted, lifecycles: &[Lifecycle], lock: &Lock) -> Locked {
        let sandbox = wanted.sandbox;
        let top = self.0.remove(&None).unwrap_or(lock::Entry { container: String::new(), keys: Vec::new() });
        let class = &sandbox.class.value;
        let made = lifecycles.first().and_then(|lifecycle| {
            let live = lifecycle.live.get(class).or_else(|| lifecycle.live.get(wanted.old?));
            // A class that does not live yet is made by the tag this build writes, the last one.
            live.map_or_else(
                || lock.migrations.iter().rfind(|tag| tag.environment.is_none()).map(|tag| tag.tag.clone()),
                |live| live.tag.clone(),
            )
        });
        Locked {
            name: sandbox.names.base.clone(),
            file: sandbox.file.clone(),
            class: class.clone(),
            binding: sandbox.names.binding.clone(),
            migration: made,
            backend: "sdk".to_owned(),
            container: top.container,
            keys: top.keys,
            environments: self
                .0
                .into_iter()
                .filter_map(|(environment, entry)| Some((environment?, entry)))
                .collect(),
        }
    }
}

/// The first sandbox ever built: what an agent gets when it names none and no attribute says `default`.
fn default(sandboxes: &[Sandbox], lock: &Lock, fate: &Fate) -> Option<String> {
    let first =
        lock.default.as_ref().and_then(|name| lock.sandboxes.iter().find(|locked| locked.name == *name));
    let still = first.and_then(|first| {
        let same = |sandbox: &&Sandbox| {
            let class = sandbox.class.value.as_str();
            class == first.class || fate.old(class) == Some(&first.class)
        };
        sandboxes.iter().find(same)
    });
    still.or(sandboxes.first()).map(|sandbox| sandbox.names.base.clone())
}

/// The new content of every file.
fn outputs(
    inputs: &Inputs,
    edits: &[Edit],
    new_lock: &Lock,
    findings: &mut Findings,
) -> Result<Vec<Change>, Stop> {
    let Inputs { project, config, .. } = inputs;
    let sandboxes = inputs.sandboxes.list.as_slice();
    let mut files: Vec<(PathBuf, String)> = vec![(config.path.clone(), config.document.apply(edits))];
    let generated = project.dir.join(generate::DIR);
    for (name, text) in generate::files(sandboxes, &[]) {
        files.push((generated.join(name), text));
    }
    files.push((project.dir.join(lock::FILE), new_lock.render()));
    let mut changes = Vec::new();
    for (path, text) in files {
        let shown = paths::relative(&path, &project.dir);
        let change = match Change::of(path, shown, Some(text.into_bytes())) {
            Ok(change) => change,
            Err(error) => return findings.io(&error),
        };
        let ours =
            |before: &[u8]| before.is_empty() || String::from_utf8_lossy(before).contains(generate::MARK);
        if change.path.starts_with(&generated) && change.before.as_deref().is_some_and(|before| !ours(before))
        {
            findings
                .add(Rule::NotOurs { path: change.shown.clone() }, Some(Place::file(change.shown.clone())));
        }
        changes.push(change);
    }
    findings.checked()?;
    Ok(changes)
}
