//! Random histories of a project against an account that behaves as Cloudflare's documentation says.
//!
//! | module | what it has |
//! |---|---|
//! | `ops` | what can happen, and the strategy |
//! | `world` | the project on disk, and what its user knows |
//! | `hand` | the configuration at first, and edits by hand |
//! | `play` | plays a history against the real `koze` |
//! | `changes`, `answer` | what the user does, and does where koze asks |
//! | `checks` | what has to hold after koze has written |
//! | `config` | the configuration as wrangler resolves it |
//! | `oracle` | the account |
//! | `foreign` | the user's part of the configuration |
//! | `sample` | what wrangler says of some |
//!
//! 500 histories with a fixed seed; `KOZE_HISTORIES=10000` for a night, `PROPTEST_RNG_SEED` for others. A history that
//! fails is shrunk and printed as a script; a fault that was found becomes a test of its own.

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
        rng_seed: match default.rng_seed {
            // Not one and the same four times.
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
