//! Determines which classes exist and how they change: with `migrations`, or with `exports` if the project uses those.
//!
//! A list is replayed as wrangler does. Tags are only ever appended, and a build may only create or rename storage.

mod convert;
mod exports;
mod history;
mod migrations;
mod unmake;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use koze_edit::{Edit, Path, Step};
use serde_json::{Map, Value};

use super::locate::Config;
use super::scope::{Scope, dotted};
use crate::finding::{Findings, Place, Stop};
use crate::lock::{self, Lock, Tag};
use crate::own::Own;
use crate::rules::Rule;

pub use convert::{Conversion, Obstacle};
pub use unmake::{Unmade, deleted};

/// Changes to classes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Classes to create, with `SQLite` storage.
    pub new: Vec<String>,
    /// Classes to rename, as pairs of old and new name.
    pub renamed: Vec<(String, String)>,
    /// Classes whose storage is deleted.
    pub deleted: Vec<String>,
    /// The containers that `exports` link to classes, by their names before the changes; `None` removes the link.
    pub links: BTreeMap<String, Option<String>>,
}

impl Changes {
    /// Returns the union of two sets of changes.
    #[must_use]
    pub fn and(&self, others: &Changes) -> Changes {
        let mut all = self.clone();
        all.new.extend_from_slice(&others.new);
        all.renamed.extend_from_slice(&others.renamed);
        all.deleted.extend_from_slice(&others.deleted);
        all.links.extend(others.links.clone());
        all
    }

    fn is_empty(&self) -> bool {
        self.new.is_empty() && self.renamed.is_empty() && self.deleted.is_empty() && self.links.is_empty()
    }
}

/// An existing class.
#[derive(Debug, Clone)]
pub struct Live {
    /// Whether its storage is `SQLite`, which containers require.
    pub sqlite: bool,
    /// The tag that created it; `None` with `exports`.
    pub tag: Option<String>,
    /// The path of the entry that created it.
    pub path: Path,
    /// Its former names, the oldest first.
    pub former: Vec<String>,
}

/// A list of migrations or a map of exports.
#[derive(Debug)]
pub struct Lifecycle<'a> {
    /// The environment that it belongs to; `None` is the top level, which environments inherit.
    pub environment: Option<String>,
    path: Path,
    kind: Notation<'a>,
    /// The existing classes, by name.
    pub live: BTreeMap<String, Live>,
}

#[derive(Debug)]
enum Notation<'a> {
    Migrations(&'a [Value]),
    Exports(&'a Map<String, Value>),
}

/// The exports of a configuration that has none yet.
static NO_EXPORTS: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// Returns the lifecycles of a configuration: that of the top level, and those of environments that override it.
///
/// | a level has | its notation |
/// |---|---|
/// | a Durable Object in `exports` | `exports` |
/// | that, and a list of migrations with entries | an error |
/// | a list of migrations with entries | `migrations` |
/// | neither, at the top level | `exports` if koze creates the file or the map is empty, otherwise `migrations` |
/// | neither, in an environment | that of the top level, except that a map of its own replaces that of the top level |
pub fn all<'a>(
    config: &Config,
    scopes: &[Scope<'a>],
    lock: &Lock,
    findings: &mut Findings,
) -> Result<Vec<Lifecycle<'a>>, Stop> {
    let mut lifecycles = Vec::new();
    for scope in scopes {
        let exports = scope
            .get("exports")
            .and_then(Value::as_object)
            .filter(|exports| exports.values().any(exports::is_object));
        let migrations = scope.get("migrations").and_then(Value::as_array);
        let path = |key: &str| scope.path(&[Step::from(key)]);
        if let (Some(_), Some([_, ..])) = (exports, migrations.map(Vec::as_slice)) {
            let rule = Rule::BadMigrations {
                message: "`migrations` and `exports` both declare Durable Objects".to_owned(),
                remedy: "wrangler accepts only one of them: keep the one that this project uses".to_owned(),
            };
            findings.add(rule, Some(config.place(&path("exports"))));
        } else if let Some(exports) = exports.or_else(|| undecided_exports(scope, config, lifecycles.first()))
        {
            lifecycles.push(Lifecycle::of_exports(scope, path("exports"), exports));
        } else if let (Some((name, wrong)), None | Some([])) =
            (unknown_export(scope), migrations.map(Vec::as_slice))
        {
            // Only this entry could tell which of the two the project uses. Adding migrations next to it might be
            // wrong.
            let path = scope.path(&[Step::from("exports"), Step::from(name), Step::from("type")]);
            let rule = Rule::ConfigShape { path: dotted(&path), expected: exports::TYPES };
            let at = if wrong.get("type").is_some() { path.as_slice() } else { &path[..path.len() - 1] };
            findings.add(rule, Some(config.place(at)));
        } else if scope.environment.is_none() || migrations.is_some() {
            let list = migrations.map_or(&[][..], Vec::as_slice);
            lifecycles.push(Lifecycle::of_migrations(
                scope,
                path("migrations"),
                list,
                (config, lock),
                findings,
            ));
        }
    }
    findings.checked()?;
    Ok(lifecycles)
}

/// Returns the map of a level that has no class yet, if its classes belong in `exports`. The lifecycle of the top level is
/// `top` in an environment. koze never chooses this form for an existing file, because it cannot be undone.
fn undecided_exports<'a>(
    scope: &Scope<'a>,
    config: &Config,
    top: Option<&Lifecycle>,
) -> Option<&'a Map<String, Value>> {
    if scope.get("migrations").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
        || unknown_export(scope).is_some()
    {
        return None;
    }
    let exports = scope.get("exports").and_then(Value::as_object);
    match top {
        Some(top) => exports.filter(|_| matches!(top.kind, Notation::Exports(_))),
        None if config.is_new() => Some(exports.unwrap_or(&NO_EXPORTS)),
        None => exports.filter(|exports| exports.is_empty()),
    }
}

/// Returns an entry of `exports` whose type wrangler does not accept.
fn unknown_export<'a>(scope: &Scope<'a>) -> Option<(&'a str, &'a Value)> {
    let exports = scope.get("exports")?.as_object()?;
    let mut unknown = exports.iter().filter(|(_, entry)| !exports::is_known(entry));
    unknown.next().map(|(name, entry)| (name.as_str(), entry))
}

/// Reports a configuration other than the one that `koze.lock` belongs to.
pub fn check_owner(
    lifecycles: &[Lifecycle],
    lock: &Lock,
    config: &Config,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let Some(owner) = &config.owner else { return Ok(()) };
    let there = |tag: &Tag| {
        let list = lifecycles.iter().find(|list| list.environment == tag.environment);
        list.and_then(|list| list.tag(&tag.tag)).is_some_and(|found| found.hash == tag.hash)
    };
    let lives = |class: &str| lifecycles.iter().any(|list| list.lives(class));
    if lock.migrations.iter().all(there) && lock.sandboxes.iter().all(|locked| lives(&locked.class)) {
        return Ok(());
    }
    let rule = Rule::BadMigrations {
        message: format!(
            "`koze.lock` belongs to `{owner}`: this file does not have the entries that koze wrote there"
        ),
        remedy: format!(
            "koze manages one configuration of a package: run koze without `--config` to build `{owner}`; to move to `{}`, delete `koze.lock`, and also `{owner}` if nothing was deployed from it: the next build adopts matching entries",
            config.shown
        ),
    };
    findings.fail(rule, Some(Place::file(config.shown.clone())))
}

/// Checks that the lists of locked migrations still exist. A whole environment may be removed.
pub fn check_lists(
    lifecycles: &[Lifecycle],
    scopes: &[Scope],
    lock: &Lock,
    config: &Config,
    findings: &mut Findings,
) {
    let lists = |environment: &Option<String>| {
        lifecycles
            .iter()
            .any(|list| list.environment == *environment && matches!(list.kind, Notation::Migrations(_)))
    };
    let lost = |scope: &&Scope| {
        !lists(&scope.environment) && lock.migrations.iter().any(|tag| tag.environment == scope.environment)
    };
    for scope in scopes.iter().filter(lost) {
        let path = dotted(&scope.path(&[Step::from("migrations")]));
        let rule = Rule::BadMigrations {
            message: format!("the list `{path}`, which koze had written to, is missing"),
            remedy: "a deployed migration stays in effect, even if you remove it from the file: restore the list from version control; if none of it was ever deployed, remove its `[[migration]]` entries from `koze.lock`"
                .to_owned(),
        };
        findings.add(rule, Some(Place::file(config.shown.clone())));
    }
}

impl<'a> Lifecycle<'a> {
    fn of_exports(scope: &Scope, path: Path, exports: &'a Map<String, Value>) -> Self {
        let live = exports::live(&path, exports);
        Lifecycle { environment: scope.environment.clone(), path, kind: Notation::Exports(exports), live }
    }

    fn of_migrations(
        scope: &Scope,
        path: Path,
        list: &'a [Value],
        (config, lock): (&Config, &Lock),
        findings: &mut Findings,
    ) -> Self {
        let locked = |tag: &str| {
            lock.migrations.iter().any(|locked| locked.environment == scope.environment && locked.tag == tag)
        };
        let live = migrations::replay(&path, list, &locked, config, findings);
        Lifecycle { environment: scope.environment.clone(), path, kind: Notation::Migrations(list), live }
    }

    /// Checks that the tags that koze wrote still exist unchanged.
    pub fn check_tags(&self, lock: &Lock, config: &Config, findings: &mut Findings) {
        let Notation::Migrations(list) = &self.kind else {
            return;
        };
        for locked in lock.migrations.iter().filter(|locked| locked.environment == self.environment) {
            let found = list.iter().position(|migration| text_at(migration, "tag") == Some(&locked.tag));
            let (path, what) = match found {
                Some(index) if lock::hash(&list[index]) == locked.hash => continue,
                Some(index) => {
                    ([self.path.clone(), vec![Step::Index(index)]].concat(), "is not what koze wrote")
                }
                None => (Path::new(), "is gone"),
            };
            let rule = Rule::BadMigrations {
                message: format!("the migration `{}` {what}", locked.tag),
                remedy: "a deployed migration stays in effect, even if you change the file: restore it from version control; if it was never deployed, remove its `[[migration]]` from `koze.lock`"
                    .to_owned(),
            };
            let mut place = config.place(&path);
            if path.is_empty() {
                place.range = None;
            }
            findings.add(rule, Some(place));
        }
    }

    /// Reports an entry of `exports` for a declared class that only the user can change: a tombstone, or another type of
    /// export.
    pub fn check_exports(&self, classes: &[&str], config: &Config, findings: &mut Findings) {
        let Notation::Exports(exports) = &self.kind else { return };
        for class in classes {
            let Some(entry) = exports.get(*class).filter(|_| !self.lives(class)) else { continue };
            let path = [self.path.clone(), vec![Step::from(*class)]].concat();
            let state = text_at(entry, "state").or(text_at(entry, "type")).unwrap_or("nothing that lives");
            let message = format!("`exports` says of the class `{class}`: {state}");
            let remedy = if Own::ALL.iter().any(|own| own.class() == *class) {
                "a build does not undo this: remove this entry once a deployment has deleted the class, then run `koze build` again"
            } else {
                "a build does not undo this: give the struct another name, or remove this entry once every deployed environment has listed it under \"Safe to remove from `exports`\""
            };
            let rule = Rule::Contradiction { message, remedy: remedy.to_owned() };
            findings.add(rule, Some(config.place(&path)));
        }
    }

    /// Returns whether the classes are declared in `migrations`, even if there are none yet.
    pub fn is_migrations(&self) -> bool {
        matches!(self.kind, Notation::Migrations(_))
    }

    /// Returns what declares the classes, for messages.
    pub fn noun(&self) -> &'static str {
        match self.kind {
            Notation::Migrations(_) => "the migrations",
            Notation::Exports(_) => "`exports`",
        }
    }

    /// Returns whether a class exists.
    pub fn lives(&self, class: &str) -> bool {
        self.live.contains_key(class)
    }

    /// Returns the past renames of existing classes, as pairs of old and new name.
    pub fn renamed(&self) -> impl Iterator<Item = (String, String)> {
        let formers = |(class, live): (&'_ String, &'_ Live)| -> Vec<(String, String)> {
            live.former.iter().map(|former| (former.clone(), class.clone())).collect()
        };
        self.live.iter().flat_map(formers)
    }

    /// Returns the changes that make the declared classes exist. `renames` holds those of this build and those that
    /// other lists have already applied.
    pub fn changes(&self, declared: &[&str], renames: &[(String, String)], deletions: &[&str]) -> Changes {
        let mut changes = Changes::default();
        let free = |old: &str| self.lives(old) && !declared.contains(&old) && !deletions.contains(&old);
        for class in declared.iter().filter(|class| !self.lives(class)) {
            match previous_names(class, renames).into_iter().find(|old| free(old)) {
                Some(old) => changes.renamed.push((old.to_owned(), (*class).to_owned())),
                None => changes.new.push((*class).to_owned()),
            }
        }
        for class in deletions {
            // If a rename is still pending here, the storage has a former name.
            let here = Some(*class).filter(|class| self.lives(class));
            let here = here.or_else(|| previous_names(class, renames).into_iter().find(|old| free(old)));
            let taken = |old: &&str| !changes.renamed.iter().any(|(from, _)| from == old);
            changes.deleted.extend(here.filter(taken).map(str::to_owned));
        }
        changes
    }

    /// Returns the classes that existed here and will not after the changes.
    pub fn dead(&self, changes: &Changes) -> BTreeSet<&str> {
        let once = match &self.kind {
            Notation::Migrations(list) => migrations::named(list),
            Notation::Exports(exports) => exports.keys().map(String::as_str).collect(),
        };
        let comes = |class: &str| {
            changes.new.iter().chain(changes.renamed.iter().map(|(_, new)| new)).any(|new| new == class)
        };
        let goes = |class: &str| {
            changes.deleted.iter().chain(changes.renamed.iter().map(|(old, _)| old)).any(|old| old == class)
        };
        let leaving = self.live.keys().map(String::as_str);
        let all: BTreeSet<&str> = once.into_iter().chain(leaving).collect();
        all.into_iter().filter(|class| !comes(class) && (goes(class) || !self.lives(class))).collect()
    }

    /// Returns the edits that apply the changes, each under its own tag, and these tags. A tag is `None` for empty
    /// changes and with `exports`.
    pub fn edits<const N: usize>(&self, changes: [&Changes; N]) -> (Vec<Edit>, [Option<Tag>; N]) {
        let mut edits = Vec::new();
        let mut all = match &self.kind {
            Notation::Migrations(list) => list.to_vec(),
            Notation::Exports(_) => Vec::new(),
        };
        let tags = changes.map(|changes| {
            if changes.is_empty() {
                return None;
            }
            if let Notation::Exports(exports) = &self.kind {
                edits.extend(exports::edits(&self.path, exports, changes));
                return None;
            }
            let (tag, migration) = migrations::next(&all, changes);
            let hash = lock::hash(&migration);
            all.push(migration.clone());
            edits.push(Edit::Push { path: self.path.clone(), value: migration });
            Some(Tag { environment: self.environment.clone(), tag, hash })
        });
        (edits, tags)
    }

    /// Warns about operations that wrangler refuses to replay, including the migrations that these edits append.
    pub fn check_history(&self, edits: &[Edit], config: &Config, findings: &mut Findings) {
        let Notation::Migrations(list) = &self.kind else { return };
        let appended = edits.iter().filter_map(|edit| match edit {
            Edit::Push { path, value } if *path == self.path => Some(value),
            _ => None,
        });
        let all: Vec<&Value> = list.iter().chain(appended).collect();
        for refused in history::refused(&all) {
            let (rule, steps) = refused.rule();
            findings.add(rule, Some(config.place(&[self.path.clone(), steps].concat())));
        }
    }

    /// Returns the tag that created an adopted class, for the lock.
    pub fn tag(&self, tag: &str) -> Option<Tag> {
        let Notation::Migrations(list) = &self.kind else {
            return None;
        };
        let migration = list.iter().find(|migration| text_at(migration, "tag") == Some(tag))?;
        Some(Tag { environment: self.environment.clone(), tag: tag.to_owned(), hash: lock::hash(migration) })
    }

    /// Returns the location where a class was created, for messages.
    pub fn place(&self, class: &str, config: &Config) -> Option<Place> {
        Some(config.place(&self.live.get(class)?.path))
    }
}

/// Returns the former names of a class according to these renames, the latest first. Each rename is followed once.
fn previous_names<'r>(class: &'r str, renames: &'r [(String, String)]) -> Vec<&'r str> {
    let mut names = vec![class];
    let mut next = 0;
    while let Some(name) = names.get(next).copied() {
        next += 1;
        for (old, _) in renames.iter().filter(|(_, new)| new == name) {
            if !names.contains(&old.as_str()) {
                names.push(old);
            }
        }
    }
    names.split_off(1)
}

fn text_at<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

fn elements_at<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}
