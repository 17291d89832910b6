//! The target that Workers are built for.

use std::path::Path;
use std::process::Command;

use super::say;
use crate::{Result, process};

const TARGET: &str = "wasm32-unknown-unknown";

const NO_RUSTUP: &str = "install rustup and run `cargo xtask setup` again";

/// What helps on a machine that may not download Rust's own build of the target.
const REFUSED: &str = "\
rustup says why above; once that is mended, run `cargo xtask setup` again.
Where its downloads are refused for good, Debian has what builds for the target by hand, a compiler with the sources of its library:
  apt-get install -y --no-install-recommends rustc-web cargo-web rust-web-llvm rust-web-src lld-22
  RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc /usr/bin/cargo build --target wasm32-unknown-unknown -Z build-std=std,panic_abort";

/// Adds the target to the toolchain in use, unless it is there; `verbose` also names the toolchain.
pub(crate) fn install(verbose: bool) -> Result<()> {
    let sysroot = process::stdout(Command::new("rustc").args(["--print", "sysroot"]), NO_RUSTUP)?;
    if verbose {
        let version = process::stdout(Command::new("rustc").arg("--version"), NO_RUSTUP)?;
        say(&format!("{version}, in {sysroot}"));
    }
    if installed(Path::new(&sysroot)) {
        say(&format!("the target {TARGET} is installed"));
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", TARGET]);
    say(&process::line(&rustup));
    let status = process::status(&mut rustup, NO_RUSTUP)?;
    if !status.success() {
        return Err(format!("`{}` failed ({status}): {REFUSED}", process::line(&rustup)).into());
    }
    // rustup's toolchain need not be the one that `rustc` on PATH belongs to.
    if !installed(Path::new(&sysroot)) {
        return Err(format!(
            "rustup added {TARGET}, but not to the toolchain in use ({sysroot}): put rustup's directory first on PATH"
        )
        .into());
    }
    Ok(())
}

/// Whether the target's libraries lie in the toolchain.
fn installed(sysroot: &Path) -> bool {
    sysroot.join("lib/rustlib").join(TARGET).join("lib").is_dir()
}
