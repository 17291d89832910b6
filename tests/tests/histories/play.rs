//! Plays a history.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::checks::{self, Written};
use crate::config::{Format, Level, environments, lists, text};
use crate::hand::{Hand, Mode};
use crate::ops::Op;
use crate::oracle::Worker;
use crate::world::{CLASSES, FILES, Run, Source, World, base};

/// The errors that a build may end in here: each asks the user for something.
const ASKED: [&str; 4] = ["K025", "K042", "K043", "K044"];

/// How often the user answers before giving up and taking everything back.
const PATIENCE: u8 = 4;

type Done = Result<(), String>;

pub(crate) fn play(world: &mut World, ops: &[Op]) -> Done {
    for op in ops {
        step(world, op)?;
    }
    // Whatever happened: the user gets the project in step again, and all of it can be deployed.
    build(world, 0)?;
    for environment in world.managed() {
        deploy(world, &environment)?;
    }
    Ok(())
}

fn step(world: &mut World, op: &Op) -> Done {
    match *op {
        Op::Add { file, class, attributes } => add(world, file, class, attributes),
        Op::Move { which, file } => change(world, which, |_, _| {}, Some(file)),
        Op::RenameClass { which, class, said } => rename(world, which, class, said, None),
        Op::RenameBoth { which, class, file, said } => rename(world, which, class, said, Some(file)),
        Op::RenamedFrom { which } => {
            change(
                world,
                which,
                |source, _| {
                    source.renamed_from = source.renamed_from.is_none().then(|| "NeverThere".to_owned());
                },
                None,
            );
        }
        Op::Delete { which } => {
            if let Some(file) = chosen(world, which)
                && let Some(source) = world.take(&file)
            {
                world.graveyard.push((file, source));
            }
        }
        Op::Restore { which } => restore(world, which),
        Op::Attributes { which, attributes } => {
            change(world, which, |source, _| source.attributes = attributes & (attributes >> 3), None);
        }
        Op::AddEnvironment { own } => add_environment(world, own),
        Op::RemoveEnvironment { which } => remove_environment(world, which),
        Op::OwnList { which } => own_list(world, which),
        Op::Restrict { which } => restrict(world, which),
        Op::Hand { kind, place } => by_hand(world, kind, place),
        Op::Build { way } => return build(world, way),
        Op::Look { kind } => return look(world, kind),
        Op::Remove { which, delete, by_class } => return remove(world, which, delete, by_class),
        Op::Deploy { which } => {
            let managed = world.managed();
            return deploy(world, &managed[usize::from(which) % managed.len()]);
        }
        Op::Revert => {
            if let Some(saved) = world.saved.take() {
                world.say("the last build is taken back");
                world.committed = None;
                world.restore(saved, false);
            }
        }
    }
    Ok(())
}

/// One of the sandbox files.
fn chosen(world: &World, which: u8) -> Option<String> {
    let files = &world.state.sources;
    files.keys().nth(usize::from(which) % files.len().max(1)).cloned()
}

/// A class that no file declares.
fn free_class(world: &World, class: u8) -> Option<String> {
    let class = CLASSES[usize::from(class) % CLASSES.len()];
    world.state.sources.values().all(|source| source.class != class).then(|| class.to_owned())
}

fn free_file(world: &World, file: u8) -> Option<&'static str> {
    let file = FILES[usize::from(file) % FILES.len()];
    (!world.state.sources.contains_key(file)).then_some(file)
}

fn add(world: &mut World, file: u8, class: u8, attributes: u8) {
    if let (Some(file), Some(class)) = (free_file(world, file), free_class(world, class)) {
        let attributes = attributes & (attributes >> 3);
        world.put(file, Source { class, renamed_from: None, attributes, name: None });
    }
}

/// Changes a sandbox, and perhaps moves its file.
fn change(world: &mut World, which: u8, edit: impl FnOnce(&mut Source, &str), file: Option<u8>) {
    let Some(old) = chosen(world, which) else { return };
    let new = match file {
        Some(file) => match free_file(world, file) {
            Some(file) => file.to_owned(),
            None => return,
        },
        None => old.clone(),
    };
    let Some(mut source) = world.take(&old) else { return };
    edit(&mut source, &old);
    world.put(&new, source);
}

fn rename(world: &mut World, which: u8, class: u8, said: bool, file: Option<u8>) {
    let Some(class) = free_class(world, class) else { return };
    let edit = |source: &mut Source, _: &str| {
        let old = std::mem::replace(&mut source.class, class);
        source.renamed_from = said.then_some(old).or(source.renamed_from.take());
    };
    change(world, which, edit, file);
}

/// A file that was deleted comes back, unless its place or its class are taken.
fn restore(world: &mut World, which: u8) {
    let count = world.graveyard.len();
    if count == 0 {
        return;
    }
    let (file, source) = world.graveyard.remove(usize::from(which) % count);
    let taken =
        world.state.sources.iter().any(|(other, there)| *other == file || there.class == source.class);
    if !taken {
        world.put(&file, source);
    }
}

/// Puts an edit in place, if the file is a configuration all the same.
fn edit(world: &mut World, what: &str, text: Option<String>) -> bool {
    let Some(text) = text.filter(|text| world.format.parse(text).is_ok()) else { return false };
    world.say(format!("{what}: the configuration is\n{text}"));
    world.write(world.format.file(), &text);
    // What was built before no longer fits.
    world.saved = None;
    world.committed = None;
    true
}

fn with_hand(world: &World, edit: impl FnOnce(&Hand) -> Option<String>) -> Option<String> {
    let text = world.config_text();
    let (mark, text) = text.split_at(text.len() - text.trim_start_matches('\u{feff}').len());
    Some(format!("{mark}{}", edit(&Hand { format: world.format, text })?))
}

fn add_environment(world: &mut World, own: bool) {
    let number = world.next();
    let (name, class, tag) = (format!("e{number}"), format!("Own{number}"), format!("{number}-first"));
    let mut level = json!({ "vars": { "STAGE": name } });
    if own {
        match world.mode {
            Mode::Migrations => level["migrations"] = json!([{ "tag": tag, "new_sqlite_classes": [class] }]),
            Mode::Exports => {
                level["exports"] =
                    json!({ (class.as_str()): { "type": "durable-object", "storage": "sqlite" } })
            }
        }
    }
    let with = |hand: &Hand| match hand.format {
        Format::Jsonc => hand
            .member(&["env"], &name, &level)
            .or_else(|| hand.member(&[], "env", &json!({ (name.as_str()): level }))),
        Format::Toml => hand.member(&["env"], &name, &level),
    };
    let text = with_hand(world, with);
    if edit(world, "an environment comes", text) && own {
        world.user_classes.insert(class);
        if world.mode == Mode::Migrations {
            world.user_tags.insert((name, tag));
        }
    }
}

fn remove_environment(world: &mut World, which: u8) {
    let names = environments(&world.config());
    if names.is_empty() {
        return;
    }
    let name = names[usize::from(which) % names.len()].clone();
    let text = with_hand(world, |hand| hand.without_environment(&name));
    if edit(world, "an environment goes, and its Worker", text) {
        world.state.eager.remove(&name);
        world.account.remove(&name);
        if let Some(names) = &mut world.restricted {
            names.retain(|other| *other != name);
            world.write_manifest();
        }
    }
}

/// Gives an environment the list that it has inherited so far.
fn own_list(world: &mut World, which: u8) {
    let config = world.config();
    let key = if world.mode == Mode::Migrations { "migrations" } else { "exports" };
    let names: Vec<String> =
        environments(&config).into_iter().filter(|name| config["env"][name].get(key).is_none()).collect();
    if names.is_empty() || config.get(key).is_none() {
        return;
    }
    let name = &names[usize::from(which) % names.len()];
    let text = with_hand(world, |hand| match (hand.format, world.mode) {
        (Format::Jsonc, _) => hand.member(&["env", name], key, &config[key]),
        (Format::Toml, Mode::Migrations) => {
            let mut text = hand.text.to_owned();
            for migration in config[key].as_array()? {
                text = Hand { format: hand.format, text: &text }.push(name, &[key], migration)?;
            }
            Some(text)
        }
        (Format::Toml, Mode::Exports) => {
            let mut text = hand.text.to_owned();
            for (class, entry) in config[key].as_object()? {
                text = Hand { format: hand.format, text: &text }.member(&["env", name, key], class, entry)?;
            }
            Some(text)
        }
    });
    if edit(world, "an environment gets a list of its own", text) && world.mode == Mode::Migrations {
        for migration in lists(&config).remove("").unwrap_or_default() {
            world.user_tags.insert((name.clone(), text_of(&migration, "tag")));
        }
    }
}

fn text_of(entry: &serde_json::Value, key: &str) -> String {
    text(entry, key).to_owned()
}

fn restrict(world: &mut World, which: u8) {
    let names = environments(&world.config());
    world.restricted = match usize::from(which) % (names.len() + 2) {
        0 => None,
        count => Some(names.into_iter().take(count - 1).collect()),
    };
    world.say(format!("[package.metadata.koze] environments: {:?}", world.restricted));
    world.write_manifest();
    world.saved = None;
    world.committed = None;
}

fn by_hand(world: &mut World, kind: u8, place: u8) {
    let number = world.next();
    let text = match (kind % 6, world.format) {
        (0, Format::Jsonc) => with_hand(world, |hand| {
            hand.after_mark("@vars", &format!("    \"M{number}\":\t\"x, y\", // é {number}"))
        }),
        (0, Format::Toml) => {
            with_hand(world, |hand| hand.after_mark("@vars", &format!("M{number} =\t'x, y' # é {number}")))
        }
        (1, Format::Jsonc) => {
            with_hand(world, |hand| hand.anywhere(place, &format!(" // note {number} ]}}")))
        }
        (1, Format::Toml) => with_hand(world, |hand| hand.anywhere(place, &format!("# note {number} ]}}"))),
        (2, _) => with_hand(world, |hand| Some(hand.indented())),
        (3, _) => with_hand(world, |hand| Some(hand.other_line_ends())),
        _ => return own_class(world, number, place),
    };
    edit(world, "by hand", text);
}

/// The user's own Durable Object, with a tag of the user's taste, at any level that has a list.
fn own_class(world: &mut World, number: usize, place: u8) {
    let config = world.config();
    let class = format!("Own{number}");
    let (level, text) = match world.mode {
        Mode::Migrations => {
            let lists = lists(&config);
            let level =
                lists.keys().nth(usize::from(place) % lists.len().max(1)).cloned().unwrap_or_default();
            let list = lists.get(&level).cloned().unwrap_or_default();
            let tag = if place & 1 == 0 { format!("hand-{number}") } else { format!("v{}", list.len() + 1) };
            if list.iter().any(|migration| text(migration, "tag") == tag) {
                return;
            }
            let entry = json!({ "tag": tag, "new_classes": [class] });
            let text = with_hand(world, |hand| hand.push(&level, &["migrations"], &entry));
            if text.as_ref().is_some_and(|text| world.format.parse(text).is_ok()) {
                world.user_tags.insert((level.clone(), tag));
            }
            (level, text)
        }
        Mode::Exports => {
            let entry = json!({ "type": "durable-object", "storage": "sqlite" });
            (String::new(), with_hand(world, |hand| hand.member(&["exports"], &class, &entry)))
        }
    };
    if !edit(world, "a class of the user's comes", text) {
        return;
    }
    world.user_classes.insert(class.clone());
    let binding = json!({ "name": format!("OWN_{number}"), "class_name": class });
    // An environment that inherits the list has no such binding: bindings are not inherited.
    let text = with_hand(world, |hand| hand.push(&level, &["durable_objects", "bindings"], &binding));
    edit(world, "and its binding", text);
}

fn look(world: &mut World, kind: u8) -> Done {
    let args: &[&str] = match kind % 3 {
        0 => &["build", "--check"],
        1 => &["build", "--dry-run"],
        _ => &["build", "--check", "--strict"],
    };
    world.koze(args).map(drop)
}

/// Builds; where koze asks, the user answers. `way` says how.
fn build(world: &mut World, way: u8) -> Done {
    for turn in 0..=PATIENCE {
        let before = world.capture();
        let config = world.config_text();
        let run = world.koze(&["build"])?;
        if run.code == 0 {
            return accepted(
                world,
                before,
                &Written { before: config, deleted: BTreeSet::new(), kept: BTreeMap::new() },
            );
        }
        refused(world, &run)?;
        if turn < PATIENCE {
            answer(world, &run, way.wrapping_add(turn.wrapping_mul(3)))?;
        }
    }
    // Back to what was committed; nothing stands in the way of that.
    let Some(committed) = world.committed.clone() else { return Ok(()) };
    world.say("everything is taken back");
    world.restore(committed, true);
    let run = world.koze(&["build", "--check"])?;
    if run.code == 0 {
        Ok(())
    } else {
        Err(format!("what was committed is out of step:\n{}{}", run.stdout, run.stderr))
    }
}

fn accepted(world: &mut World, before: crate::world::State, written: &Written) -> Done {
    world.counts.builds += 1;
    note_stale(world, written);
    checks::written(world, written)?;
    world.saved = Some(before);
    world.committed = Some(world.capture());
    Ok(())
}

/// Takes note of names that are vacated and used anew: in `exports` mode an environment that missed it cannot know.
fn note_stale(world: &mut World, written: &Written) {
    let built: BTreeSet<&String> = world.state.built.values().collect();
    let renamed = world.state.renames.iter().map(|(old, _)| old.clone());
    let declared: BTreeSet<String> =
        world.state.sources.values().map(|source| source.class.clone()).collect();
    let mut vacated: BTreeSet<String> = renamed.chain(written.deleted.iter().cloned()).collect();
    vacated.retain(|class| declared.contains(class) && !built.contains(class));
    world.stale.extend(vacated);
    world.stale.extend(written.deleted.iter().cloned());
}

/// A refusal is one that asks the user for something, with a reason.
fn refused(world: &mut World, run: &Run) -> Done {
    world.counts.refused += 1;
    let codes: Vec<&str> =
        run.stderr.lines().filter_map(|line| line.strip_prefix("error[")?.get(..4)).collect();
    if codes.is_empty() || codes.iter().any(|code| !ASKED.contains(code)) {
        return Err(format!("a build ended in {codes:?}:\n{}", run.stderr));
    }
    let declared: BTreeSet<&String> = world.state.sources.values().map(|source| &source.class).collect();
    let gone = world.state.built.values().any(|class| !declared.contains(class));
    if (run.has("K043") || run.has("K044")) && !gone {
        return Err(format!("nothing is gone, and koze misses something:\n{}", run.stderr));
    }
    Ok(())
}

/// The user does one of the things that koze offers.
fn answer(world: &mut World, run: &Run, way: u8) -> Done {
    if run.has("K025") {
        // Two containers of one name: one of them gets another.
        let number = world.next();
        change(world, way, |source, _| source.name = Some(format!("app-{number}")), None);
        return Ok(());
    }
    if run.has("K042") {
        // Two things that exclude each other: `renamed_from` goes, or the class gets yet another name.
        let file = world.state.sources.iter().find(|(_, source)| source.renamed_from.is_some());
        if let (Some((file, _)), true) = (file, way % 3 > 0) {
            let file = file.clone();
            if let Some(mut source) = world.take(&file) {
                source.renamed_from = None;
                world.put(&file, source);
            }
        } else {
            rename(world, way, way, false, None);
        }
        return Ok(());
    }
    let declared: BTreeSet<String> =
        world.state.sources.values().map(|source| source.class.clone()).collect();
    let gone: Vec<(String, String)> = world
        .state
        .built
        .iter()
        .filter(|(_, class)| !declared.contains(*class))
        .map(|(file, class)| (file.clone(), class.clone()))
        .collect();
    let Some((file, class)) = gone.get(usize::from(way / 4) % gone.len().max(1)).cloned() else {
        return Ok(());
    };
    match way % 4 {
        // The file comes back, beside the one that took its place.
        0 => {
            if !world.state.sources.contains_key(&file) {
                world.put(&file, Source { class, renamed_from: None, attributes: 0, name: None });
            }
            Ok(())
        }
        1 => remove(world, u8::MAX, way & 16 == 0, way & 32 == 0),
        2 => {
            let built: BTreeSet<String> = world.state.built.values().cloned().collect();
            let new = world.state.sources.iter().find(|(_, source)| !built.contains(&source.class));
            if let Some((file, _)) = new {
                let file = file.clone();
                if let Some(mut source) = world.take(&file) {
                    source.renamed_from = Some(class);
                    world.put(&file, source);
                }
            }
            Ok(())
        }
        _ => remove(world, way, way & 16 == 0, way & 32 == 0),
    }
}

/// `koze remove` of some of the sandboxes that are gone, chosen by the bits of `which`.
fn remove(world: &mut World, which: u8, delete: bool, by_class: bool) -> Done {
    let declared: BTreeSet<String> =
        world.state.sources.values().map(|source| source.class.clone()).collect();
    let mut gone: Vec<(String, String)> = world
        .state
        .built
        .iter()
        .filter(|(_, class)| !declared.contains(*class))
        .map(|(file, class)| (base(file).to_owned(), class.clone()))
        .collect();
    if delete {
        gone.extend(world.state.kept.iter().map(|(class, name)| (name.clone(), class.clone())));
    }
    let all: Vec<String> = world
        .state
        .built
        .keys()
        .map(|file| base(file).to_owned())
        .chain(world.state.kept.values().cloned())
        .collect();
    let named: Vec<(String, String)> = gone
        .iter()
        .enumerate()
        .filter(|(bit, _)| which & (1 << (bit % 8)) != 0)
        .map(|(_, (name, class))| {
            // A base name may be that of two sandboxes, one of them kept.
            let unique = all.iter().filter(|other| *other == name).count() == 1;
            (if by_class || !unique { class.clone() } else { name.clone() }, class.clone())
        })
        .collect();
    let mut args = vec!["remove"];
    args.extend(named.iter().map(|(name, _)| name.as_str()));
    // A sandbox that is declared, or that there never was.
    let wrong = world.state.sources.values().next().filter(|_| by_class).map(|source| source.class.clone());
    let wrong = wrong.unwrap_or_else(|| "nobody".to_owned());
    if named.is_empty() {
        args.push(&wrong);
    }
    args.push(if delete { "--delete-storage" } else { "--keep-storage" });
    let (before, config) = (world.capture(), world.config_text());
    let run = world.koze(&args)?;
    if run.code == 0 && named.is_empty() {
        return Err(format!("koze removed what nobody named: {}", run.stdout));
    }
    if run.code != 0 {
        let known = ASKED.iter().chain(&["K059"]).any(|code| run.has(code));
        return if known { Ok(()) } else { Err(format!("a removal ended in\n{}", run.stderr)) };
    }
    let classes = named.into_iter().map(|(_, class)| class);
    let mut written = Written { before: config, deleted: BTreeSet::new(), kept: BTreeMap::new() };
    if delete {
        written.deleted = classes.collect();
    } else {
        let name =
            |class: &String| gone.iter().find(|(_, other)| other == class).map(|(name, _)| name.clone());
        written.kept = classes.map(|class| (class.clone(), name(&class).unwrap_or_default())).collect();
        world.counts.kept += 1;
    }
    accepted(world, before, &written)
}

/// Deploys a level, if the project is in step: the build command of a configuration stops a deployment else.
fn deploy(world: &mut World, name: &str) -> Done {
    let run = world.koze(&["build", "--check"])?;
    if run.code != 0 {
        return Ok(());
    }
    // A project that koze has not built anything in yet has nothing of koze's to deploy.
    let Some(eager) = world.state.eager.get(name).cloned() else { return Ok(()) };
    if world.committed.is_none() {
        return Ok(());
    }
    let level = Level::of(&world.config(), name);
    let before: Worker = world.account.get(name).cloned().unwrap_or_default();
    // A class that `exports` makes is the one that every build was deployed to.
    let born = |class: &str| eager.classes.get(class).map(|storage| storage.born.clone()).unwrap_or_default();
    let deployed = before.deployed(&level, &checks::code_classes(world), &born);
    world.say(format!("# {name:?} is deployed: {deployed:?}"));
    match deployed {
        Ok(after) => {
            world.counts.deployments += 1;
            world.counts.lagged += u32::from(before.classes != after.classes && !before.classes.is_empty());
            if after.classes != eager.classes && !excused(world, &after, &eager) {
                return Err(format!("{name:?} has {:?}, and should have {:?}", after.classes, eager.classes));
            }
            world.account.insert(name.to_owned(), after);
            world.saved = None;
            Ok(())
        }
        // One map says nothing of the names that a class had between two deployments: Cloudflare refuses, and nothing
        // is lost.
        Err(why) if world.mode == Mode::Exports && !world.stale.is_empty() => {
            world.say(format!("# refused: {why}"));
            world.counts.rejected += 1;
            Ok(())
        }
        Err(why) => Err(format!("{why}: the deployment of {name:?} fails")),
    }
}

/// Whether an account differs in names that an environment missed to give up, and in nothing else.
fn excused(world: &World, after: &Worker, eager: &Worker) -> bool {
    let names: BTreeSet<&String> = after.classes.keys().chain(eager.classes.keys()).collect();
    let differs = |class: &&&String| after.classes.get(**class) != eager.classes.get(**class);
    world.mode == Mode::Exports
        && !world.stale.is_empty()
        && names.iter().filter(differs).count() <= 2 * world.stale.len()
}
