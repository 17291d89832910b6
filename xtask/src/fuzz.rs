//! `cargo xtask fuzz`: the editors on any input, and the guest's connection on any bytes, for a fixed number of executions.
//!
//! libFuzzer is linked by the crate `libfuzzer-sys`; the instrumentation is LLVM's, which stable Rust passes on. So
//! nothing has to be installed. Without unsafe code of our own there is nothing for a sanitizer to find.

use std::path::Path;
use std::process::ExitCode;

use fs_err as fs;

use crate::{Result, process};

/// The targets, by the names of their binaries.
const TARGETS: [&str; 3] = ["guest", "jsonc", "toml"];

/// Coverage of edges, and of the values that are compared.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing";

/// The longest input. What is wrong shows in short texts, and long ones are slow.
const LONGEST: usize = 2048;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Executions of each target
    #[arg(long, default_value_t = 100_000)]
    runs: u64,
    /// Only this target
    #[arg(long, value_parser = TARGETS)]
    target: Option<String>,
    /// Another order of inputs than the usual one
    #[arg(long, default_value_t = 1)]
    seed: u32,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let out = root.join("target/fuzz");
    let host = host()?;
    let mut cargo = process::cargo(root);
    // With a target named, build scripts and macros are not instrumented.
    cargo.args(["build", "--locked", "--bins", "--manifest-path", "fuzz/Cargo.toml", "--target", &host]);
    cargo.arg("--target-dir").arg(&out).env("RUSTFLAGS", RUSTFLAGS);
    let built = process::status(&mut cargo, "install rustup, which brings cargo")?;
    if !built.success() {
        return Err("the fuzz targets do not build; libFuzzer itself needs a C++ compiler".into());
    }
    let crashes = out.join("crashes");
    fs::create_dir_all(&crashes)?;
    let targets = TARGETS.iter().filter(|target| args.target.as_deref().is_none_or(|only| only == **target));
    for target in targets {
        // What is found on the way is new each time; only the seeds are committed.
        let found = tempfile::Builder::new().prefix("koze-fuzz-").tempdir()?;
        let mut fuzzer = std::process::Command::new(out.join(&host).join("debug").join(target));
        fuzzer
            .arg(format!("-runs={}", args.runs))
            .arg(format!("-seed={}", args.seed))
            .arg(format!("-max_len={LONGEST}"))
            .arg(format!("-artifact_prefix={}/{target}-", crashes.display()))
            .args(["-timeout=20", "-print_final_stats=1", "-verbosity=0"])
            .arg(found.path())
            .arg(root.join("fuzz/corpus").join(target));
        eprintln!("fuzz: {target}, {} executions", args.runs);
        let done = process::status(&mut fuzzer, "cargo has just built it")?;
        if !done.success() {
            return Err(format!(
                "`{target}` failed on an input in {}: mend what it tries, and keep the input in `fuzz/corpus/{target}`",
                crashes.display()
            )
            .into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The target that this machine's rustc builds for.
fn host() -> Result<String> {
    let mut rustc = std::process::Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let about = process::stdout(rustc.arg("-vV"), "install rustup, which brings rustc")?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("`rustc -vV` names no host")?.to_owned())
}
