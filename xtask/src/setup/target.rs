//! Installs the compilation targets of Workers and of the guest.

use std::path::Path;
use std::process::Command;

use super::say;
use crate::{Result, process};

/// The target of Workers.
pub(crate) const WASM: &str = "wasm32-unknown-unknown";
/// The target of the guest.
pub(crate) const GUEST: &str = "x86_64-unknown-linux-musl";

const NO_RUSTUP: &str = "install rustup and run `cargo xtask setup` again";

const AGAIN: &str = "rustup says why above; once that is mended, run `cargo xtask setup` again";

/// The remedy for machines that cannot download Rust's own build of the Worker target.
const REFUSED: &str = "\
rustup says why above; once that is mended, run `cargo xtask setup` again.
Where its downloads are refused for good, Debian has what builds for the target by hand, a compiler with the sources of its library:
  apt-get install -y --no-install-recommends rustc-web cargo-web rust-web-llvm rust-web-src lld-22
  RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc /usr/bin/cargo build --target wasm32-unknown-unknown -Z build-std=std,panic_abort";

/// Adds a target to the toolchain in use if it is missing. `verbose` prints the toolchain, too.
pub(crate) fn install(target: &str, verbose: bool) -> Result<()> {
    let sysroot = process::stdout(Command::new("rustc").args(["--print", "sysroot"]), NO_RUSTUP)?;
    if verbose {
        let version = process::stdout(Command::new("rustc").arg("--version"), NO_RUSTUP)?;
        say(&format!("{version}, in {sysroot}"));
    }
    if installed(Path::new(&sysroot), target) {
        say(&format!("the target {target} is installed"));
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", target]);
    say(&process::line(&rustup));
    let status = process::status(&mut rustup, NO_RUSTUP)?;
    if !status.success() {
        let refused = if target == WASM { REFUSED } else { AGAIN };
        return Err(format!("`{}` failed ({status}): {refused}", process::line(&rustup)).into());
    }
    // rustup may have added it to another toolchain than that of the `rustc` on PATH.
    if !installed(Path::new(&sysroot), target) {
        return Err(format!(
            "rustup added {target}, but not to the toolchain in use ({sysroot}): put rustup's directory first on PATH"
        )
        .into());
    }
    Ok(())
}

/// Returns whether the toolchain contains the target's libraries.
fn installed(sysroot: &Path, target: &str) -> bool {
    sysroot.join("lib/rustlib").join(target).join("lib").is_dir()
}
