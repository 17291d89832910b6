//! The Rust toolchain that a directory pins.

use std::path::Path;

use crate::write::input;

/// The files that rustup looks for, in a directory and its parents.
const FILES: [&str; 2] = ["rust-toolchain.toml", "rust-toolchain"];

/// Returns the remedy for a directory whose toolchain does not run.
pub(super) fn help(dir: &Path, target: &str) -> String {
    match find_pinned(dir) {
        Some((file, channel)) => {
            format!("`{file}` requires it: run `rustup toolchain install {channel} --target {target}`")
        }
        None => format!(
            "run `rustup show` in the package to see what selects the toolchain, then `rustup toolchain install` with its name and `--target {target}`"
        ),
    }
}

/// Returns the file that makes rustup run programs of the file's choice, if there is one. Another file only names one of
/// the user's toolchains.
pub(super) fn foreign(dir: &Path) -> Option<&'static str> {
    // This variable of the user's takes precedence.
    if std::env::var_os("RUSTUP_TOOLCHAIN").is_some() {
        return None;
    }
    // rustup reads the nearest file, so those above it do not count.
    let files = dir.ancestors().map(|dir| FILES.map(|file| (file, dir.join(file))));
    let nearest =
        files.into_iter().find(|files| files.iter().any(|(_, path)| path.symlink_metadata().is_ok()))?;
    let is_harmless = |path: &Path| input::read_text(path).is_ok_and(|text| is_without_path(&text));
    let mut present = nearest.iter().filter(|(_, path)| path.symlink_metadata().is_ok());
    present.find(|(_, path)| !is_harmless(path)).map(|(file, _)| *file)
}

/// Returns whether a file says nothing of the path of a toolchain.
fn is_without_path(text: &str) -> bool {
    let Ok(file) = text.parse::<toml_edit::Document<String>>() else { return parse_channel(text).is_some() };
    let toolchain = file.get("toolchain").and_then(|table| table.as_table_like());
    toolchain.is_none_or(|toolchain| !toolchain.contains_key("path"))
}

/// Returns the nearest file that pins a toolchain, and the toolchain.
fn find_pinned(dir: &Path) -> Option<(&'static str, String)> {
    dir.ancestors().find_map(|dir| {
        FILES.iter().find_map(|file| {
            let text = input::read_text(&dir.join(file)).ok()?;
            Some((*file, parse_channel(&text)?))
        })
    })
}

/// Returns the channel that a file names, in TOML or in the older single-line form.
fn parse_channel(text: &str) -> Option<String> {
    if let Ok(file) = text.parse::<toml_edit::Document<String>>() {
        return Some(file.get("toolchain")?.get("channel")?.as_str()?.to_owned());
    }
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let name = lines.next().filter(|name| !name.contains(char::is_whitespace))?;
    lines.next().is_none().then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_is_one_of_the_users_toolchains() {
        for (text, expected) in [
            ("[toolchain]\nchannel = \"1.80\"\ntargets = [\"wasm32-unknown-unknown\"]\n", true),
            ("[toolchain]\ncomponents = [\"clippy\"]\n", true),
            ("nightly\n", true),
            ("[toolchain]\npath = \"bin\"\n", false),
            ("toolchain.path = \"bin\"\n", false),
            ("toolchain = { \"path\" = \"bin\" }\n", false),
            ("", true),
            ("a b\n", false),
        ] {
            assert_eq!(is_without_path(text), expected, "{text}");
        }
    }

    #[test]
    fn both_forms_name_a_channel() {
        assert_eq!(parse_channel("[toolchain]\nchannel = \"1.80\"\n").as_deref(), Some("1.80"));
        assert_eq!(parse_channel("nightly-2024-01-01\n").as_deref(), Some("nightly-2024-01-01"));
        assert_eq!(parse_channel("[toolchain]\npath = \"/x\"\n"), None);
        assert_eq!(parse_channel("a b\n"), None);
        assert_eq!(parse_channel(""), None);
    }
}
