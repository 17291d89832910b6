//! A smoke test: runs `wrangler deploy --dry-run` at the end of some histories. wrangler accepts many invalid
//! configurations.

use std::time::Duration;

use koze_tests::{node_command, node_modules, run};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::config::Format;
use crate::hand::Mode;
use crate::world::World;
use crate::{ops, play};

/// The number of histories for each mode and format.
const SAMPLE: usize = 4;

/// The timeout of wrangler on a slow machine.
const TIMEOUT: Duration = Duration::from_mins(5);

fn sample(mode: Mode, format: Format) {
    let seed = RngSeed::Fixed(40 + mode as u64 * 2 + format as u64);
    let mut runner =
        TestRunner::new(Config { failure_persistence: None, rng_seed: seed, ..Config::default() });
    for _ in 0..SAMPLE {
        let (dice, ops) = ops::history().new_tree(&mut runner).expect("a history").current();
        let mut world = World::new(mode, format, dice);
        play::play(&mut world, &ops).unwrap_or_else(|why| panic!("{why}\n{}", world.script.join("\n")));
        dry_run(&world);
    }
}

fn dry_run(world: &World) {
    fs_err::os::unix::fs::symlink(node_modules(), world.dir().join("node_modules")).expect("a link");
    // The stand-in for the Rust Worker exports the user's classes.
    let classes = world.user_classes.iter().map(|class| format!("export class {class} {{}}\n"));
    let worker = "export default { fetch() { return new Response(\"ok\"); } };\n".to_owned();
    world.write("build/index.js", &(worker + &classes.collect::<String>()));
    let mut command = node_command("wrangler");
    command.args(["deploy", "--dry-run", "--outdir", "dist", "--env="]).current_dir(world.dir());
    let output = run(command, TIMEOUT);
    let printed = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{}\n{}\n{}", printed[0], printed[1], world.script.join("\n"));
    // wrangler lists what koze wrote in the last build.
    for class in world.state.built.values() {
        assert!(printed[0].contains(&format!("({class})")), "no {class}\n{}", printed[0]);
    }
}

#[test]
fn wrangler_accepts_a_sample_of_migrations() {
    sample(Mode::Migrations, Format::Jsonc);
    sample(Mode::Migrations, Format::Toml);
}

#[test]
fn wrangler_accepts_a_sample_of_exports() {
    sample(Mode::Exports, Format::Jsonc);
    sample(Mode::Exports, Format::Toml);
}
