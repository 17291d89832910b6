//! The program of Windows, which `cargo xtask platforms` builds, under wine.
//!
//! Most cases run a command with the program of this machine, too, in a project of its own: what it prints and the files
//! that it writes must be the same.

mod cases;
mod pair;
mod wine;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use wine::Wine;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trial = |(name, case): (&str, fn())| {
        Trial::test(name, move || {
            case();
            Ok(())
        })
    };
    let trials = cases::ALL.into_iter().map(trial).collect();
    if arguments.list {
        return libtest_mimic::run(&arguments, trials).exit_code();
    }
    if let Some(missing) = Wine::missing() {
        assert!(std::env::var_os("CI").is_none(), "the program of Windows cannot be tested: {missing}");
        eprintln!("the tests of the program of Windows are left out: {missing}");
        return ExitCode::SUCCESS;
    }
    // Before the cases, which share it; it ends after the last of them.
    let wine = Wine::start();
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop(wine);
    conclusion.exit_code()
}
