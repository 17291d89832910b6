//! The user's answers to questions of a build.

use std::collections::BTreeSet;

use crate::changes::{change, edit, rename, with_hand};
use crate::play::{Done, remove};
use crate::world::{Run, Source, World};

/// Does one of the things that koze suggests.
pub(crate) fn answer(world: &mut World, run: &Run, way: u8) -> Done {
    if run.has("K025") {
        // Two containers have the same name: rename one.
        let number = world.next();
        change(world, way, |source, _| source.name = Some(format!("app-{number}")), None);
        return Ok(());
    }
    if run.stderr.contains(", which no longer exists") {
        // An entry of the user's, or in an unmanaged environment, names a deleted class: remove it.
        let dead: BTreeSet<String> = run
            .stderr
            .lines()
            .filter_map(|line| line.split("refers to the class `").nth(1)?.split('`').next())
            .map(str::to_owned)
            .collect();
        for level in world.managed() {
            for class in &dead {
                let text = with_hand(world, |hand| hand.without_class(&level, class));
                edit(world, "what names a dead class goes", text);
            }
        }
        return Ok(());
    }
    if run.has("K042") {
        // Contradictory requests: remove `renamed_from`, or rename the class again.
        let file = world.state.sources.iter().find(|(_, source)| source.renamed_from.is_some());
        if let (Some((file, _)), true) = (file, !way.is_multiple_of(3)) {
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
        // Restore the file, next to the one that replaced it.
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
