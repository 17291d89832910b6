//! `cargo xtask fuzz`: runs the editors and the guest's connection on arbitrary input, for a fixed number of
//! executions.
//!
//! The crate `libfuzzer-sys` links libFuzzer, and stable Rust can enable LLVM's instrumentation, so nothing has to be
//! installed. The crates contain no unsafe code, so sanitizers would find nothing.

use std::path::Path;
use std::process::ExitCode;

use fs_err as fs;

use crate::{Result, process};

/// The targets, which are also the names of their binaries.
const TARGETS: [&str; 3] = ["guest", "jsonc", "toml"];

/// The instrumentation: edge coverage and compared values.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing";

/// The maximum input length. Short texts are enough to find faults, and long ones are slow.
const MAX_INPUT: usize = 2048;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The number of executions of each target
    #[arg(long, default_value_t = 100_000)]
    runs: u64,
    /// Run only this target
    #[arg(long, value_parser = TARGETS)]
    target: Option<String>,
    /// The seed for the order of inputs
    #[arg(long, default_value_t = 1)]
    seed: u32,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let out = root.join("target/fuzz");
    let host = host()?;
    let mut cargo = process::cargo(root);
    // With an explicit target, cargo does not instrument build scripts and macros.
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
        // Inputs found on the way are temporary; only the seeds are committed.
        let found = tempfile::Builder::new().prefix("koze-fuzz-").tempdir()?;
        let mut fuzzer = std::process::Command::new(out.join(&host).join("debug").join(target));
        fuzzer
            .arg(format!("-runs={}", args.runs))
            .arg(format!("-seed={}", args.seed))
            .arg(format!("-max_len={MAX_INPUT}"))
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

/// Returns the default target of this machine's rustc.
fn host() -> Result<String> {
    let mut rustc = std::process::Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let about = process::stdout(rustc.arg("-vV"), "install rustup, which brings rustc")?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("`rustc -vV` names no host")?.to_owned())
}
