//! Random histories of a project, checked against an account that behaves as Cloudflare's documentation says.
//!
//! | module | contents |
//! |---|---|
//! | `ops` | the operations and their strategy |
//! | `world` | the project on disk, and what its user knows |
//! | `hand` | the initial configuration, and edits by hand |
//! | `play` | runs a history with the real `koze` |
//! | `changes`, `answer` | the user's changes, and answers to koze |
//! | `checks` | the invariants after koze has written |
//! | `config` | resolves the configuration as wrangler does |
//! | `oracle` | the account |
//! | `foreign` | the user's part of the configuration |
//! | `sample` | runs wrangler on a sample |
//!
//! There are 500 histories with a fixed seed; set `KOZE_HISTORIES=10000` for a long run, and `PROPTEST_RNG_SEED` for
//! another seed. A failing history is shrunk and printed as a script. Each fault found becomes a separate test.

mod answer;
mod changes;
mod checks;
mod config;
mod foreign;
mod hand;
mod ops;
mod oracle;
mod play;
mod sample;
mod world;

use std::cell::RefCell;

use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

use crate::config::Format;
use crate::hand::Mode;
use crate::world::{Counts, World};

/// The default number of histories of all four tests together.
const HISTORIES: u32 = 500;

fn histories(mode: Mode, format: Format) {
    let asked = std::env::var("KOZE_HISTORIES").ok().and_then(|count| count.parse().ok());
    let default = Config::default();
    let runner = Config {
        cases: asked.unwrap_or(HISTORIES).div_ceil(4),
        failure_persistence: None,
        max_shrink_iters: 4000,
        max_shrink_time: 90_000,
        rng_seed: match default.rng_seed {
            // Use different seeds for the four tests.
            RngSeed::Random => RngSeed::Fixed(mode as u64 * 2 + format as u64),
            fixed @ RngSeed::Fixed(_) => fixed,
        },
        ..default
    };
    let seen = RefCell::new(Counts::default());
    let played = TestRunner::new(runner.clone()).run(&ops::history(), |(dice, ops)| {
        let mut world = World::new(mode, format, dice);
        let done = play::play(&mut world, &ops);
        seen.borrow_mut().add(world.counts);
        done.map_err(|why| {
            TestCaseError::fail(format!("{why}\n--- the history\n{}", world.script.join("\n")))
        })
    });
    match played {
        Ok(()) => {}
        Err(TestError::Fail(why, history)) => panic!("{why}\n--- as data\n{history:?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
    let seen = seen.into_inner();
    println!("{mode:?}, {format:?}, {} histories: {seen:?}", runner.cases);
    // A test that exercises nothing proves nothing.
    let cases = runner.cases;
    assert!(
        seen.builds > cases
            && seen.renames > cases / 8
            && seen.deletions > cases / 16
            && seen.lagged > cases / 16,
        "too little happened: {seen:?}"
    );
}

#[test]
fn migrations_in_jsonc() {
    histories(Mode::Migrations, Format::Jsonc);
}

#[test]
fn migrations_in_toml() {
    histories(Mode::Migrations, Format::Toml);
}

#[test]
fn exports_in_jsonc() {
    histories(Mode::Exports, Format::Jsonc);
}

#[test]
fn exports_in_toml() {
    histories(Mode::Exports, Format::Toml);
}
