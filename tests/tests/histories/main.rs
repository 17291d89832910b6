//! Random histories of a project against an account that behaves as Cloudflare's documentation says.
//!
//! | module | what it has |
//! |---|---|
//! | `ops` | what can happen, and the strategy |
//! | `world` | the project on disk, and what its user knows |
//! | `hand` | the configuration at first, and edits by hand |
//! | `play` | plays a history: the real `koze`, and a user who answers it |
//! | `checks` | what has to hold after koze has written |
//! | `config` | the configuration as wrangler resolves it |
//! | `oracle` | the account |
//! | `foreign` | the user's part of the configuration |
//!
//! 500 histories with a fixed seed; `KOZE_HISTORIES=10000` for a night, `PROPTEST_RNG_SEED` for others. A history that
//! fails is shrunk and printed as a script; a fault that was found becomes a test of its own.

mod checks;
mod config;
mod foreign;
mod hand;
mod ops;
mod oracle;
mod play;
mod world;

use std::cell::RefCell;

use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

use crate::config::Format;
use crate::hand::Mode;
use crate::world::{Counts, World};

/// How many histories all four tests play together, unless `KOZE_HISTORIES` says.
const HISTORIES: u32 = 500;

fn histories(mode: Mode, format: Format) {
    let asked = std::env::var("KOZE_HISTORIES").ok().and_then(|count| count.parse().ok());
    let default = Config::default();
    let runner = Config {
        cases: asked.unwrap_or(HISTORIES).div_ceil(4),
        failure_persistence: None,
        max_shrink_iters: 4000,
        max_shrink_time: 90_000,
        rng_seed: if matches!(default.rng_seed, RngSeed::Random) {
            RngSeed::Fixed(3)
        } else {
            default.rng_seed
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
    // A test that sees nothing shows nothing.
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
