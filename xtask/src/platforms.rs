//! `cargo xtask platforms`: compiles the command line for the systems other than this one, and the library for Workers with fewer
//! features than all, and treats warnings as errors.
//!
//! macOS, Linux on ARM and Workers are only checked. The program of Windows is built, because `tests/tests/windows` runs it.

pub(crate) mod zig;

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::{Result, process, setup};
use zig::Zig;

/// The systems that are checked, by their names in Rust and in Zig.
const CHECKED: [(&str, &str); 2] =
    [("aarch64-apple-darwin", "aarch64-macos"), ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu")];

/// The flags for C code, which is only compiled: no optimization, and no sanitizer, which Zig adds.
const QUICK: &str = "-O0 -fno-sanitize=undefined";

/// The features of Workers that are checked. The lints of the workspace see all features together, and so no code that is
/// dead without one of them.
const FEATURES: [&str; 2] = ["", "script"];

const WINDOWS: &str = "x86_64-pc-windows-gnu";
/// The C compiler and linker for it, which cargo uses by default.
const MINGW: &str = "x86_64-w64-mingw32-gcc";

/// The target directory of the program without namespaces. `tests/src/binary.rs` has the same.
const WITHOUT_NAMESPACES: &str = "target/portable";

/// A library that wine lacks, next to the program of Windows.
const LIBRARY: (&str, &str) = ("tests/tests/windows/bcryptprimitives.c", "bcryptprimitives.dll");

const NO_RUSTUP: &str = "install rustup, which brings cargo and rustc";

pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let zig = Zig::installed(root)?;
    // In one run, cargo always has work for every processor.
    let mut clippy = cargo(root, "clippy");
    for (target, name) in CHECKED {
        setup::target::install(target, false)?;
        clippy.args(["--target", target]);
        let target = target.replace('-', "_");
        clippy.env(format!("CC_{target}"), zig.cc(name)?).env(format!("AR_{target}"), zig.ar());
        clippy.env(format!("CFLAGS_{target}"), QUICK);
    }
    clippy.args(["--", "-D", "warnings"]);
    done(&mut clippy)?;
    worker(root)?;
    setup::debian::install()?;
    windows(root)?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the program of Windows where wine can run it, if its compiler is installed.
pub(crate) fn program_of_windows(root: &Path) -> Result<()> {
    let can_run = cfg!(all(target_os = "linux", target_arch = "x86_64"));
    if can_run && Command::new(MINGW).arg("--version").output().is_ok() { windows(root) } else { Ok(()) }
}

/// Builds the program without sandboxes of namespaces, as it is on macOS, for `tests/tests/conformance`.
pub(crate) fn program_without_namespaces(root: &Path) -> Result<()> {
    let mut build = cargo(root, "build");
    done(build.arg("--no-default-features").arg("--target-dir").arg(root.join(WITHOUT_NAMESPACES)))
}

/// Builds the program of Windows, and the library that wine lacks.
fn windows(root: &Path) -> Result<()> {
    setup::target::install(WINDOWS, false)?;
    let mut build = cargo(root, "build");
    build.args(["--target", WINDOWS]).env("CARGO_PROFILE_DEV_DEBUG", "0");
    // With a target, flags do not reach build scripts and macros.
    build.env("CARGO_ENCODED_RUSTFLAGS", "-Dwarnings");
    done(&mut build)?;
    let (source, library) = LIBRARY;
    let out = root.join("target").join(WINDOWS).join("debug").join(library);
    let mut cc = Command::new(MINGW);
    cc.args(["-shared", "-nostdlib"]).arg(root.join(source)).arg("-o").arg(out).arg("-ladvapi32");
    done(&mut cc)
}

/// Checks the library for Workers.
fn worker(root: &Path) -> Result<()> {
    setup::target::install(setup::target::WASM, false)?;
    for features in FEATURES {
        let mut check = process::cargo(root);
        check.args(["check", "--locked", "--package", "koze", "--target", setup::target::WASM]);
        check.args(["--features", features]).env("CARGO_ENCODED_RUSTFLAGS", "-Dwarnings");
        done(&mut check)?;
    }
    Ok(())
}

/// Returns a cargo command for the program.
fn cargo(root: &Path, command: &str) -> Command {
    let mut cargo = process::cargo(root);
    cargo.args([command, "--locked", "--package", "koze-cli", "--bin", "koze"]);
    cargo
}

fn done(command: &mut Command) -> Result<()> {
    eprintln!("platforms: {}", process::line(command));
    if process::status(command, NO_RUSTUP)?.success() {
        return Ok(());
    }
    Err(format!("`{}` failed; it says why above", process::line(command)).into())
}
