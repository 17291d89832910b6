//! The user's changes to the project.

use serde_json::json;

use crate::config::{Format, environments, lists, text};
use crate::hand::{Hand, Mode};
use crate::world::{CLASSES, FILES, Source, World};

/// Loses the lock. koze may then leave entries behind, but must still know about all storage.
pub(crate) fn lose_lock(world: &mut World) {
    if fs_err::remove_file(world.dir().join("koze.lock")).is_ok() {
        world.say("koze.lock is lost");
        world.saved = None;
        world.committed = None;
        let levels = environments(&world.config());
        world.untidy.extend(levels.into_iter().chain([String::new()]));
    }
}

/// Returns one of the sandbox files.
pub(crate) fn chosen(world: &World, which: u8) -> Option<String> {
    let files = &world.state.sources;
    files.keys().nth(usize::from(which) % files.len().max(1)).cloned()
}

/// Returns a class that no file declares.
pub(crate) fn free_class(world: &World, class: u8) -> Option<String> {
    let class = CLASSES[usize::from(class) % CLASSES.len()];
    world.state.sources.values().all(|source| source.class != class).then(|| class.to_owned())
}

pub(crate) fn free_file(world: &World, file: u8) -> Option<&'static str> {
    let file = FILES[usize::from(file) % FILES.len()];
    (!world.state.sources.contains_key(file)).then_some(file)
}

pub(crate) fn add(world: &mut World, file: u8, class: u8, attributes: u8) {
    if let (Some(file), Some(class)) = (free_file(world, file), free_class(world, class)) {
        let attributes = attributes & (attributes >> 3);
        world.put(file, Source { class, renamed_from: None, attributes, name: None });
    }
}

/// Changes a sandbox, and optionally moves its file.
pub(crate) fn change(world: &mut World, which: u8, edit: impl FnOnce(&mut Source, &str), file: Option<u8>) {
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

pub(crate) fn rename(world: &mut World, which: u8, class: u8, declared: bool, file: Option<u8>) {
    let Some(class) = free_class(world, class) else { return };
    let edit = |source: &mut Source, _: &str| {
        let old = std::mem::replace(&mut source.class, class);
        source.renamed_from = declared.then_some(old).or(source.renamed_from.take());
    };
    change(world, which, edit, file);
}

/// Restores a deleted file, unless its path or class is in use.
pub(crate) fn restore(world: &mut World, which: u8) {
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

/// Applies an edit if the result is still a valid configuration.
pub(crate) fn edit(world: &mut World, what: &str, text: Option<String>) -> bool {
    let Some(text) = text.filter(|text| world.format.parse(text).is_ok()) else { return false };
    world.say(format!("{what}: the configuration is\n{text}"));
    world.write(world.format.file(), &text);
    // The saved state of the last build no longer matches.
    world.saved = None;
    world.committed = None;
    true
}

pub(crate) fn with_hand(world: &World, edit: impl FnOnce(&Hand) -> Option<String>) -> Option<String> {
    let text = world.config_text();
    let (mark, text) = text.split_at(text.len() - text.trim_start_matches('\u{feff}').len());
    Some(format!("{mark}{}", edit(&Hand { format: world.format, text })?))
}

pub(crate) fn add_environment(world: &mut World, own: bool) {
    let number = world.next();
    let (name, class, tag) = (format!("e{number}"), format!("Own{number}"), format!("{number}-first"));
    let mut level = json!({ "vars": { "STAGE": name } });
    if own {
        match world.mode {
            Mode::Migrations => level["migrations"] = json!([{ "tag": tag, "new_sqlite_classes": [class] }]),
            Mode::Exports => {
                level["exports"] =
                    json!({ (class.as_str()): { "type": "durable-object", "storage": "sqlite" } });
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

pub(crate) fn remove_environment(world: &mut World, which: u8) {
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

/// Copies the inherited list into an environment.
pub(crate) fn own_list(world: &mut World, which: u8) {
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

pub(crate) fn text_of(entry: &serde_json::Value, key: &str) -> String {
    text(entry, key).to_owned()
}

pub(crate) fn restrict(world: &mut World, which: u8) {
    let names = environments(&world.config());
    world.restricted = match usize::from(which) % (names.len() + 2) {
        0 => None,
        count => Some(names.into_iter().take(count - 1).collect()),
    };
    world.say(format!("[package.metadata.koze] environments: {:?}", world.restricted));
    world.write_manifest();
    let managed = world.managed();
    world.skipped.extend(environments(&world.config()).into_iter().filter(|name| !managed.contains(name)));
    world.saved = None;
    world.committed = None;
}

pub(crate) fn by_hand(world: &mut World, kind: u8, place: u8) {
    let number = world.next();
    let text = match (kind % 7, world.format) {
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
        (4, _) => {
            // A second binding to a sandbox's class.
            let class =
                world.state.built.values().nth(usize::from(place) % world.state.built.len().max(1)).cloned();
            let entry = class.map(|class| json!({ "name": format!("ALIAS_{number}"), "class_name": class }));
            entry.and_then(|entry| {
                with_hand(world, |hand| hand.push("", &["durable_objects", "bindings"], &entry))
            })
        }
        _ => return own_class(world, number, place),
    };
    edit(world, "by hand", text);
}

/// Adds the user's own Durable Object with its own tag, at any level that has a list.
pub(crate) fn own_class(world: &mut World, number: usize, place: u8) {
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
    // An environment that inherits the list needs its own binding, because bindings are not inherited.
    let text = with_hand(world, |hand| hand.push(&level, &["durable_objects", "bindings"], &binding));
    edit(world, "and its binding", text);
}
