//! Programs for other machines that are committed: `cargo install` builds for no other target. Their builds are reproducible
//! wherever the checkout is, so that a check can compare them.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use fs_err as fs;

use crate::{Result, process};

pub(crate) const NO_RUSTUP: &str = "install rustup, which brings cargo and rustc";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if the committed program differs from what its source builds. With another compiler than the
    /// recorded one, only warn
    #[arg(long)]
    pub(crate) check: bool,
}

/// A committed program.
pub(crate) struct Committed {
    /// The task that builds it.
    pub(crate) task: &'static str,
    /// Its path.
    pub(crate) file: &'static str,
}

impl Committed {
    /// Compares the committed program with the one that `compiler` built. Only the recorded compiler can prove that they
    /// differ, because another may produce other bytes from the same source.
    pub(crate) fn verdict(&self, same: bool, recorded: &str, compiler: &str) -> Result<String> {
        let Committed { task, file } = self;
        if same {
            return Ok(format!("{task}: {file} is what its source builds"));
        }
        if recorded == compiler || recorded.is_empty() {
            return Err(format!(
                "`{file}` differs from what its source builds: run `cargo xtask {task}`, and commit the result"
            )
            .into());
        }
        Ok(format!(
            "warning: `{file}` was built with {recorded}, but this is {compiler}: its source builds, but the bytes cannot \
             be compared. To compare them, use that compiler; to replace the program, run `cargo xtask {task}`"
        ))
    }
}

/// Compresses a program for Workers, whose size is limited.
pub(crate) fn packed(program: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut to = GzEncoder::new(Vec::new(), Compression::best());
    to.write_all(program)?;
    to.finish()
}

/// Returns the version of the compiler that the checkout's cargo uses.
pub(crate) fn compiler() -> Result<String> {
    process::stdout(Command::new("rustc").arg("--version"), NO_RUSTUP)
}

/// Makes a build produce the same bytes everywhere, with these flags of rustc alone.
pub(crate) fn reproducible(root: &Path, cargo: &mut Command, flags: &[&str]) -> Result<()> {
    // Ignore the caller's flags, and those of a configuration above the checkout.
    for variable in ["RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        cargo.env_remove(variable);
    }
    let mut all: OsString = flags.join("\x1f").into();
    // The last matching replacement wins.
    for (from, to) in places(root)? {
        all.push("\x1f--remap-path-prefix=");
        all.push(from);
        all.push("=");
        all.push(to);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", all);
    // An incremental build divides the code differently, and produces other bytes.
    cargo.env("CARGO_INCREMENTAL", "0");
    Ok(())
}

/// Returns the paths of this machine, and what replaces them.
fn places(root: &Path) -> Result<Vec<(PathBuf, &'static str)>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let cargo = cargo
        .ok_or("neither CARGO_HOME nor HOME is set, and paths below them would be left in the program")?;
    let mut places = vec![(root.to_owned(), "/koze"), (cargo.clone(), "/cargo")];
    // Cargo stores crates in a directory per registry, whose name contains the registry's host.
    for registry in fs::read_dir(cargo.join("registry/src"))? {
        places.push((registry?.path(), "/crates"));
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::Committed;

    #[test]
    fn only_the_recorded_compiler_proves_a_difference() {
        let program = Committed { task: "guest", file: "a/program" };
        let (recorded, newer) =
            ("rustc 1.95.0 (59807616e 2026-04-14)", "rustc 1.97.0 (0123456789 2026-08-20)");
        let verdict = |same, recorded, compiler| program.verdict(same, recorded, compiler);
        assert!(verdict(true, recorded, recorded).is_ok_and(|text| text.starts_with("guest: ")));
        assert!(verdict(true, recorded, newer).is_ok_and(|text| text.starts_with("guest: ")));
        assert!(verdict(false, recorded, newer).is_ok_and(|text| text.starts_with("warning: ")));
        assert!(verdict(false, recorded, recorded).is_err());
        assert!(verdict(false, "", newer).is_err(), "without a record, nothing is known about the program");
    }
}
