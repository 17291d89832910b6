//! `cargo xtask packages`: packs the crates that are published, and installs the program from them alone, outside the
//! checkout. A file that a package lacks, or a path that leads out of it, fails here and not at a user's.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use fs_err as fs;
use serde_json::Value;
use toml_edit::DocumentMut;

use crate::{Result, process};

/// The program, and the crate that Workers import.
const PROGRAM: &str = "koze-cli";
const LIBRARY: &str = "koze";

const NO_RUSTUP: &str = "install rustup, which brings cargo and rustc";

/// A crate of the workspace.
struct Package {
    name: String,
    /// Its name and version, as in the name of the packed crate.
    full: String,
    published: bool,
}

pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let all = packages(root)?;
    let mut pack = process::cargo(root);
    pack.args(["package", "--workspace", "--locked", "--no-verify", "--allow-dirty", "--quiet"]);
    pack.args(
        all.iter().filter(|package| !package.published).flat_map(|package| ["--exclude", &package.name]),
    );
    done(&mut pack)?;

    // Outside the checkout, where koze finds none.
    let outside = tempfile::Builder::new().prefix("koze-packages-").tempdir()?;
    let dir = outside.path();
    let packed: Vec<&Package> = all.iter().filter(|package| package.published).collect();
    for package in &packed {
        let file = root.join("target/package").join(format!("{}.crate", package.full));
        // With new times of modification. Packed files all have the same one, and cargo would take them for those of the
        // last run, which it built in the same target directory.
        done(Command::new("tar").arg("-xmzf").arg(file).arg("-C").arg(dir))?;
    }
    fs::write(dir.join("Cargo.toml"), workspace(&packed, &koze_tests::profiles()))?;
    // The versions of the dependencies are those that were tested. Cargo removes those of the crates that are not there.
    fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock"))?;
    cargo(root, dir, &["metadata", "--format-version", "1"], |command| {
        command.stdout(std::process::Stdio::null());
    })?;
    cargo(root, dir, &["check", "--locked", "--package", LIBRARY], |_| ())?;
    let program = packed.iter().find(|package| package.name == PROGRAM).ok_or("the program is not packed")?;
    let installed = dir.join("installed");
    cargo(root, dir, &["install", "--locked", "--debug", "--path", &program.full], |command| {
        command.arg("--root").arg(&installed);
    })?;
    if cfg!(target_os = "linux") {
        let mut demo = Command::new(installed.join("bin/koze"));
        demo.arg("demo").current_dir(dir);
        // koze would find this workspace through them.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO")) {
            demo.env_remove(name);
        }
        done(&mut demo)?;
    }
    eprintln!("packages: {} crates build on their own", packed.len());
    Ok(ExitCode::SUCCESS)
}

/// Returns the crates of the workspace. Those with `publish = false` may be published nowhere.
fn packages(root: &Path) -> Result<Vec<Package>> {
    let mut metadata = process::cargo(root);
    metadata.args(["metadata", "--no-deps", "--locked", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&process::stdout(&mut metadata, NO_RUSTUP)?)?;
    let packages = metadata["packages"].as_array().ok_or("cargo lists no packages")?;
    let package = |package: &Value| {
        let (name, version) = (package["name"].as_str()?.to_owned(), package["version"].as_str()?);
        let full = format!("{name}-{version}");
        Some(Package { name, full, published: package["publish"].as_array().is_none_or(|to| !to.is_empty()) })
    };
    Ok(packages.iter().filter_map(package).collect())
}

/// Returns a workspace of the unpacked crates, in which each uses the others in place of those of the registry.
fn workspace(packed: &[&Package], profiles: &DocumentMut) -> String {
    let members: Vec<&str> = packed.iter().map(|package| package.full.as_str()).collect();
    let mut text = format!("[workspace]\nresolver = \"3\"\nmembers = {members:?}\n\n{profiles}\n");
    text.push_str("[patch.crates-io]\n");
    for Package { name, full, .. } in packed {
        let _ = writeln!(text, "{name} = {{ path = \"{full}\" }}");
    }
    text
}

/// Runs cargo on the unpacked crates, with the toolchain of the checkout. It shares the dependencies that the checkout has
/// built, as their profiles are the same.
fn cargo(root: &Path, dir: &Path, args: &[&str], configure: impl FnOnce(&mut Command)) -> Result<()> {
    let mut cargo = process::cargo(dir);
    cargo.args(args).env("CARGO_TARGET_DIR", root.join("target"));
    configure(&mut cargo);
    done(&mut cargo)
}

fn done(command: &mut Command) -> Result<()> {
    eprintln!("packages: {}", process::line(command));
    if process::status(command, NO_RUSTUP)?.success() {
        return Ok(());
    }
    Err(format!("`{}` failed; it says why above", process::line(command)).into())
}
