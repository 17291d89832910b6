//! Runs a history.

use std::collections::{BTreeMap, BTreeSet};

use crate::answer::answer;
use crate::changes::*;
use crate::checks::{self, Written};
use crate::config::Level;
use crate::ops::Op;
use crate::oracle::Worker;
use crate::world::{Run, World, base};

/// The errors with which a build may end here. Each asks the user for a decision.
const ASKED: [&str; 4] = ["K025", "K042", "K043", "K044"];

/// How often the user answers before reverting everything.
const TIMEOUT: u8 = 4;

pub(crate) type Done = Result<(), String>;

pub(crate) fn play(world: &mut World, ops: &[Op]) -> Done {
    for op in ops {
        step(world, op)?;
    }
    // In the end, the user can always make the project valid, and all of it can be deployed.
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
        Op::RenameClass { which, class, declared } => rename(world, which, class, declared, None),
        Op::RenameBoth { which, class, file, declared } => rename(world, which, class, declared, Some(file)),
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
        Op::LoseLock => lose_lock(world),
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

fn look(world: &mut World, kind: u8) -> Done {
    let args: &[&str] = match kind % 3 {
        0 => &["build", "--check"],
        1 => &["build", "--dry-run"],
        _ => &["build", "--check", "--strict"],
    };
    world.koze(args).map(drop)
}

/// Builds and answers koze's questions; `way` selects the answers.
fn build(world: &mut World, way: u8) -> Done {
    for turn in 0..=TIMEOUT {
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
        if turn < TIMEOUT {
            answer(world, &run, way.wrapping_add(turn.wrapping_mul(3)))?;
        }
    }
    // Revert to the last committed state, which must always build.
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
    checks::written(world, written)?;
    world.saved = Some(before);
    world.committed = Some(world.capture());
    Ok(())
}

/// Checks that a refusal asks the user for a decision, with a reason.
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

/// Runs `koze remove` on some of the deleted sandboxes, selected by the bits of `which`.
pub(crate) fn remove(world: &mut World, which: u8, delete: bool, by_class: bool) -> Done {
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
            // Two sandboxes may have the same base name if one of them is kept.
            let unique = all.iter().filter(|other| *other == name).count() == 1;
            (if by_class || !unique { class.clone() } else { name.clone() }, class.clone())
        })
        .collect();
    let mut args = vec!["remove"];
    args.extend(named.iter().map(|(name, _)| name.as_str()));
    // A declared or unknown sandbox.
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

/// Deploys a level if the project is up to date. Otherwise the build command would stop the deployment.
fn deploy(world: &mut World, name: &str) -> Done {
    let run = world.koze(&["build", "--check"])?;
    if run.code != 0 {
        return Ok(());
    }
    // Before the first build, there is nothing of koze's to deploy.
    let Some(eager) = world.state.eager.get(name).cloned() else { return Ok(()) };
    if world.committed.is_none() {
        return Ok(());
    }
    let level = Level::of(&world.config(), name);
    let before: Worker = world.account.get(name).cloned().unwrap_or_default();
    // A class created by `exports` is identified with the one of the account that gets every build.
    let born = |class: &str| eager.classes.get(class).map(|storage| storage.born.clone()).unwrap_or_default();
    let deployed = before.deployed(&level, &checks::code_classes(world), &born);
    world.say(format!("# {name:?} is deployed: {deployed:?}"));
    match deployed {
        Ok(after) => {
            world.counts.deployments += 1;
            world.counts.lagged += u32::from(before.classes != after.classes && !before.classes.is_empty());
            if after.classes != eager.classes && !world.skipped.contains(name) {
                return Err(format!("{name:?} has {:?}, and should have {:?}", after.classes, eager.classes));
            }
            world.account.insert(name.to_owned(), after);
            world.saved = None;
            Ok(())
        }
        // Unmanaged levels may be outdated. Cloudflare rejects the deployment, and nothing is lost.
        Err(why) if world.skipped.contains(name) => {
            world.say(format!("# refused: {why}"));
            world.counts.rejected += 1;
            Ok(())
        }
        Err(why) => Err(format!("{why}: the deployment of {name:?} fails")),
    }
}
