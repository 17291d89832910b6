//! The workspace's own tasks: `cargo xtask setup | test | guest | script | ui | packages | platforms | conformance | bench | fuzz | book | deny | wasm-toolchain`.

mod bench;
mod book;
mod committed;
mod conformance;
mod deny;
mod fuzz;
mod guest;
mod packages;
mod platforms;
mod process;
mod script;
mod setup;
mod test;
mod ui;

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The result of a task. Its errors are for people, and end with the next step.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The tasks of the koze workspace
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what the tests need (Node 22, wrangler, tsc, the targets of Workers and of the guest, podman, Chromium, MinGW, wine, SDKs in Python); skip what is installed
    Setup,
    /// Run `setup`, then the tests of the workspace
    Test {
        /// Which tests to run
        #[arg(long, value_enum, default_value = "whole", conflicts_with = "args")]
        suite: test::Suite,
        /// Run tests that failed once more, each alone, and report them
        #[arg(long, conflicts_with_all = ["suite", "args"])]
        again: bool,
        /// A configuration file for `cargo test`
        #[arg(long, value_name = "FILE", conflicts_with = "suite")]
        config: Option<PathBuf>,
        /// Passed on to `cargo test`, e.g. `-- --test tools` or `-- -- --nocapture`
        #[arg(last = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Build the guest of containers, which is committed
    Guest(committed::Args),
    /// Build the engine of scripts for Workers, which is committed
    Script(committed::Args),
    /// Build the page of `koze ui`, which is committed
    Ui(committed::Args),
    /// Pack the crates that are published, install koze from them alone, and run `koze demo`
    Packages,
    /// Check the command line for macOS, Windows and Linux on ARM, and build the program of Windows for its tests
    Platforms,
    /// Run the conformance suite of the tools against a running Worker
    Conformance(conformance::Args),
    /// Measure `koze build`, sandboxes and Workers next to comparable programs
    Bench(bench::Args),
    /// Fuzz the editors of wrangler configurations and the guest's connection
    Fuzz(fuzz::Args),
    /// Build the pages of `docs` as a book, in `target/book`
    Book,
    /// Check the licenses, sources and versions of dependencies with cargo-deny
    Deny(deny::Args),
    /// Install only the wasm32-unknown-unknown target, and print what was found
    WasmToolchain,
}

fn main() -> ExitCode {
    let root = root();
    let outcome = match Cli::parse().task {
        Task::Setup => setup::run(&root).map(|()| ExitCode::SUCCESS),
        Task::Test { suite: test::Suite::Fast, .. } => test::fast(&root),
        Task::Test { again, config, args, .. } => test::whole(&root, config.as_deref(), again, &args),
        Task::Guest(args) => guest::run(&root, &args),
        Task::Script(args) => script::run(&root, &args),
        Task::Ui(args) => ui::run(&root, &args),
        Task::Packages => packages::run(&root),
        Task::Platforms => platforms::run(&root),
        Task::Conformance(args) => conformance::run(&args),
        Task::Bench(args) => bench::run(&root, &args).map(|()| ExitCode::SUCCESS),
        Task::Fuzz(args) => fuzz::run(&root, &args),
        Task::Book => book::run(&root),
        Task::Deny(args) => deny::run(&root, &args),
        Task::WasmToolchain => setup::target::install(setup::target::WASM, true).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Returns the workspace's directory. Cargo sets the manifest's directory at run time, too, which stays correct if the
/// checkout is moved after the build.
fn root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().map_or(xtask.clone(), Path::to_path_buf)
}
