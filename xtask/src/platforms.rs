//! `cargo xtask platforms`: compiles the command line for the systems other than this one, and treats warnings as errors.
//!
//! macOS and Linux on ARM are only checked. The program of Windows is built, because `tests/tests/windows` runs it.

pub(crate) mod zig;

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::{Result, process, setup};
use zig::Zig;

/// A system that koze runs on.
struct System {
    /// Its name in Rust.
    target: &'static str,
    /// Its name in Zig.
    zig: &'static str,
}

const CHECKED: [System; 2] = [
    System { target: "aarch64-apple-darwin", zig: "aarch64-macos" },
    System { target: "aarch64-unknown-linux-gnu", zig: "aarch64-linux-gnu" },
];

const WINDOWS: System = System { target: "x86_64-pc-windows-gnu", zig: "x86_64-windows-gnu" };

/// A library that wine lacks, next to the program of Windows.
const LIBRARY: (&str, &str) = ("tests/tests/windows/bcryptprimitives.c", "bcryptprimitives.dll");

const NO_RUSTUP: &str = "install rustup, which brings cargo and rustc";

pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let zig = Zig::installed(root)?;
    // In one run, cargo always has work for every processor.
    let mut clippy = cargo(root, &zig, &CHECKED, "clippy")?;
    clippy.args(["--", "-D", "warnings"]);
    done(&mut clippy)?;
    windows(root, &zig)?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the program of Windows where wine can run it.
pub(crate) fn program_of_windows(root: &Path) -> Result<()> {
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        windows(root, &Zig::installed(root)?)
    } else {
        Ok(())
    }
}

/// Builds the program of Windows, and the library that wine lacks.
fn windows(root: &Path, zig: &Zig) -> Result<()> {
    let mut build = cargo(root, zig, &[WINDOWS], "build")?;
    // Flags of the target do not reach build scripts and macros.
    let flags = format!("-Dwarnings\x1f-Cdlltool={}", zig.tool("dlltool").display());
    build.env("CARGO_ENCODED_RUSTFLAGS", flags).env("CARGO_PROFILE_DEV_DEBUG", "0");
    build.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", zig.linker(WINDOWS.zig)?);
    done(&mut build)?;
    let (source, library) = LIBRARY;
    let out = root.join("target").join(WINDOWS.target).join("debug").join(library);
    let mut cc = Command::new(zig.cc(WINDOWS.zig)?);
    cc.args(["-shared", "-nostdlib"]).arg(root.join(source)).arg("-o").arg(out).arg("-ladvapi32");
    done(&mut cc)
}

/// Returns a cargo command for the program on these systems, with a C compiler for each.
fn cargo(root: &Path, zig: &Zig, systems: &[System], command: &str) -> Result<Command> {
    let mut cargo = process::cargo(root);
    cargo.args([command, "--locked", "--package", "koze-cli", "--bin", "koze"]);
    for system in systems {
        setup::target::install(system.target, false)?;
        cargo.args(["--target", system.target]);
        let target = system.target.replace('-', "_");
        cargo.env(format!("CC_{target}"), zig.cc(system.zig)?).env(format!("AR_{target}"), zig.tool("ar"));
    }
    Ok(cargo)
}

fn done(command: &mut Command) -> Result<()> {
    eprintln!("platforms: {}", process::line(command));
    if process::status(command, NO_RUSTUP)?.success() {
        return Ok(());
    }
    Err(format!("`{}` failed; it says why above", process::line(command)).into())
}
