//! Checks that everything that names a version of Rust names the same one.

use crate::release::read_file;

fn toml(path: &str) -> toml_edit::DocumentMut {
    read_file(path).parse().expect("TOML")
}

/// Because the tests run with the pinned Rust, they test the oldest that the crates promise to support.
#[test]
fn the_pinned_rust_is_the_oldest_supported_one() {
    let pinned = toml("rust-toolchain.toml")["toolchain"]["channel"].as_str().expect("a channel").to_owned();
    let supported =
        toml("Cargo.toml")["workspace"]["package"]["rust-version"].as_str().expect("a version").to_owned();
    assert_eq!(pinned, format!("{supported}.0"));
    // The Debian images of the release, which are named after the minor version.
    let workflow = read_file(".github/workflows/release.yml");
    let images: Vec<&str> =
        workflow.lines().filter_map(|line| line.trim().strip_prefix("container: rust:")).collect();
    assert!(!images.is_empty());
    assert!(images.iter().all(|image| *image == format!("{supported}-bookworm")), "{images:?}");
    let readme = read_file("README.md");
    assert!(readme.contains(&format!("Rust {supported}")), "README.md does not name the oldest Rust");
    // Committed programs can be compared only with the compiler that built them.
    for file in ["guest/koze-guest-x86_64.rustc", "script/koze-script.rustc"] {
        let compiler = read_file(&format!("templates/files/{file}"));
        assert!(compiler.starts_with(&format!("rustc {pinned} ")), "{file}: {compiler}");
    }
}

/// Every crate declares it.
#[test]
fn every_crate_declares_the_oldest_supported_rust() {
    let workspace = toml("Cargo.toml");
    let members = workspace["workspace"]["members"].as_array().expect("members");
    for member in members {
        let member = member.as_str().expect("a path");
        let manifest = toml(&format!("{member}/Cargo.toml"));
        let inherits = manifest["package"]["rust-version"]["workspace"].as_bool();
        assert_eq!(inherits, Some(true), "{member}/Cargo.toml");
    }
}
