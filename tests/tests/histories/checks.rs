//! The invariants after koze has written.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::config::{Level, lists, text};
use crate::foreign::{self, Owned};
use crate::oracle::Worker;
use crate::world::{CLASSES, World, base, binding};

/// The options of a run that wrote, and the state before.
pub(crate) struct Written {
    /// The configuration before the run.
    pub(crate) before: String,
    /// The classes whose storage should be deleted.
    pub(crate) deleted: BTreeSet<String>,
    /// The classes whose storage should be kept.
    pub(crate) kept: BTreeMap<String, String>,
}

/// Checks a run that wrote, and records what it wrote.
pub(crate) fn written(world: &mut World, written: &Written) -> Result<(), String> {
    let after = world.config_text();
    user_part(world, &written.before, &after)?;
    let config = world.config();
    let before = world.format.parse(&written.before)?;
    tags(&before, &config)?;
    for (class, name) in &written.kept {
        world.state.kept.insert(class.clone(), name.clone());
    }
    let declared: BTreeSet<String> =
        world.state.sources.values().map(|source| source.class.clone()).collect();
    let renamed: Vec<String> =
        world.state.sources.values().filter_map(|source| source.renamed_from.clone()).collect();
    let dead = |class: &str| {
        declared.contains(class) || written.deleted.contains(class)
            // Its storage has another class name now, or it was never renamed.
            || (renamed.iter().any(|old| old == class) && !exports_class(world, class))
    };
    let gone: Vec<String> = world.state.kept.keys().filter(|class| dead(class)).cloned().collect();
    for class in gone {
        world.state.kept.remove(&class);
    }
    code(world, &declared)?;
    for name in world.managed() {
        let level = Level::of(&config, &name);
        blocks(
            world,
            &level,
            &Level::of(&before, &name),
            world.skipped.contains(&name) || world.untidy.contains(&name),
        )
        .map_err(|why| format!("{why}, at the level {name:?}"))?;
        storage(world, &name, &level, written)?;
    }
    world.state.built =
        world.state.sources.iter().map(|(file, source)| (file.clone(), source.class.clone())).collect();
    let run = world.koze(&["build", "--check"])?;
    if run.code != 0 {
        return Err(format!("a build right after would change something:\n{}{}", run.stdout, run.stderr));
    }
    Ok(())
}

/// Checks that the user's part of the configuration is unchanged.
fn user_part(world: &World, before: &str, after: &str) -> Result<(), String> {
    let owned = Owned {
        class: &|class| CLASSES.contains(&class),
        tag: &|environment, tag| !world.user_tags.contains(&(environment.to_owned(), tag.to_owned())),
    };
    foreign::compare(world.format, before, after, &owned)
}

/// Checks that migrations in a list are never changed.
fn tags(before: &Value, after: &Value) -> Result<(), String> {
    let after = lists(after);
    for (name, list) in lists(before) {
        let now = after.get(&name).cloned().unwrap_or_default();
        if !now.starts_with(&list) {
            return Err(format!("the migrations of {name:?} were {list:?} and are {now:?}"));
        }
    }
    Ok(())
}

/// Returns whether the generated entry point exports a class.
fn exports_class(world: &World, class: &str) -> bool {
    world.read("src/generated/worker.mjs").contains(&format!("export class {class} "))
}

/// Checks that the generated entry point exports exactly the sandboxes and the kept classes.
fn code(world: &World, declared: &BTreeSet<String>) -> Result<(), String> {
    for class in CLASSES {
        let expected = declared.contains(class) || world.state.kept.contains_key(class);
        if exports_class(world, class) != expected {
            return Err(format!("`{class}` is exported: {}", !expected));
        }
    }
    Ok(())
}

/// Checks that each sandbox has one container and one binding, and that removed ones have none. An environment that was
/// `skipped` for a while may have entries from that time.
fn blocks(world: &World, level: &Level, before: &Level, skipped: bool) -> Result<(), String> {
    let count = |list: &[Value], class: &str| {
        let ours =
            |entry: &&Value| text(entry, "class_name") == class && !text(entry, "name").starts_with("ALIAS_");
        list.iter().filter(ours).count()
    };
    let declared: BTreeMap<&str, &str> =
        world.state.sources.iter().map(|(file, source)| (source.class.as_str(), file.as_str())).collect();
    for class in CLASSES {
        let containers = count(&level.containers, class);
        let bindings = count(&level.bindings, class);
        let expected = match declared.get(class) {
            Some(_) => (1, 1),
            // An environment that was added after the sandbox was removed never had the binding.
            None if world.state.kept.contains_key(class) => (0, count(&before.bindings, class)),
            None => (0, 0),
        };
        if (containers, bindings) != expected
            && !(skipped && containers >= expected.0 && bindings >= expected.1)
        {
            return Err(format!(
                "`{class}` has {containers} containers and {bindings} bindings, not {expected:?}"
            ));
        }
        let Some(file) = declared.get(class) else { continue };
        let bound =
            |entry: &Value| text(entry, "class_name") == class && text(entry, "name") == binding(file);
        if !level.bindings.iter().any(bound) {
            return Err(format!("`{class}` is not bound as `{}`: {:?}", binding(file), level.bindings));
        }
    }
    Ok(())
}

/// Checks the storage at one level, with an account to which every build is deployed.
fn storage(world: &mut World, name: &str, level: &Level, written: &Written) -> Result<(), String> {
    let before = world.state.eager.get(name).cloned().unwrap_or_default();
    let number = world.next();
    let after = match before.deployed(level, &code_classes(world), &|class| format!("{class} at {number}")) {
        Ok(after) => after,
        // koze does not know what happened to sandboxes while it did not manage this environment. Cloudflare then
        // rejects the deployment, and nothing is lost.
        Err(_) if world.skipped.contains(name) => {
            world.counts.rejected += 1;
            return Ok(());
        }
        Err(why) => return Err(format!("{why}: a deployment of {name:?} would fail")),
    };
    let place =
        |born: &str| after.classes.iter().find(|(_, storage)| storage.born == born).map(|(class, _)| class);
    for (class, storage) in &before.classes {
        let now = place(&storage.born);
        let named =
            written.deleted.contains(class) || written.deleted.iter().any(|gone| leads(world, class, gone));
        // A removal reaches a level that was not managed later.
        let before = world.given_up.contains(&storage.born)
            || (world.skipped.contains(name) && world.given_up.contains(class));
        if named {
            world.given_up.extend([storage.born.clone(), class.clone()]);
        }
        let removed = named || before;
        match now {
            None if removed => world.counts.deletions += 1,
            None => return Err(format!("the storage of `{class}` at {name:?} is lost")),
            Some(now) if written.deleted.contains(class) => {
                return Err(format!(
                    "the storage of `{class}` at {name:?} should be deleted, but is now that of `{now}`"
                ));
            }
            Some(now) if now == class => {}
            Some(now) => {
                if !justified(world, class, now) {
                    return Err(format!("`{class}` at {name:?} became `{now}`, which nothing says"));
                }
                world.counts.renames += 1;
                let pair = (class.clone(), now.clone());
                world.state.kept.remove(class);
                if !world.state.renames.contains(&pair) {
                    world.state.renames.push(pair);
                }
            }
        }
    }
    expected_renames(world, name, &before, &after)?;
    world.state.eager.insert(name.to_owned(), after);
    Ok(())
}

/// Returns the classes that the Worker's entry point exports: those of koze and those of the Rust Worker.
pub(crate) fn code_classes(world: &World) -> BTreeSet<String> {
    let ours = CLASSES.iter().filter(|class| exports_class(world, class)).map(|class| (*class).to_owned());
    ours.chain(world.user_classes.iter().cloned()).collect()
}

/// Returns whether a rename is justified: by `renamed_from`, by replacing a class in the same file, or by the same
/// rename at a level that is ahead of this one.
fn justified(world: &World, old: &str, new: &str) -> bool {
    let declared = world.state.sources.values().any(|source| {
        source.class == new
            && source.renamed_from.as_ref().is_some_and(|from| from == old || leads(world, old, from))
    });
    let same_file = world.state.sources.iter().any(|(file, source)| {
        let was = world.state.built.get(file);
        source.class == new && was.is_some_and(|was| was == old || leads(world, old, was))
    });
    declared || same_file || leads(world, old, new)
}

/// Returns whether the renames so far lead from one class to another.
fn leads(world: &World, from: &str, to: &str) -> bool {
    let mut reached = BTreeSet::from([from]);
    loop {
        let more: Vec<&str> = world
            .state
            .renames
            .iter()
            .filter(|(old, new)| reached.contains(old.as_str()) && !reached.contains(new.as_str()))
            .map(|(_, new)| new.as_str())
            .collect();
        if more.is_empty() {
            return from != to && reached.contains(to);
        }
        reached.extend(more);
    }
}

/// Checks that declared renames, and those that are unambiguous, keep the storage.
fn expected_renames(world: &World, name: &str, before: &Worker, after: &Worker) -> Result<(), String> {
    let sources = &world.state.sources;
    let declared: BTreeSet<&str> = sources.values().map(|source| source.class.as_str()).collect();
    let built: BTreeSet<&str> = world.state.built.values().map(String::as_str).collect();
    for (file, source) in sources {
        let class = &source.class;
        if before.classes.contains_key(class) {
            continue;
        }
        let renamed = source.renamed_from.as_deref().filter(|old| before.classes.contains_key(*old));
        // The same file has another class, and there is no other candidate on either side.
        let new = declared.difference(&built).count();
        let gone = built.difference(&declared).count();
        let only = world.state.built.get(file).map(String::as_str);
        let only = only.filter(|old| new == 1 && gone == 1 && !declared.contains(old));
        let Some(old) = renamed.or(only).and_then(|old| before.classes.get(old)) else { continue };
        let went_on = after.classes.values().any(|storage| storage.born == old.born);
        if went_on && after.classes.get(class).is_none_or(|storage| storage.born != old.born) {
            return Err(format!("`{class}` ({}) at {name:?} did not get the storage {old:?}", base(file)));
        }
    }
    Ok(())
}
