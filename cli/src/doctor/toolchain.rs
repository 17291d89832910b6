//! The Rust toolchain that a directory pins.

use std::path::Path;

/// The files that rustup looks for, in a directory and its parents.
const FILES: [&str; 2] = ["rust-toolchain.toml", "rust-toolchain"];

/// Returns the remedy for a directory whose toolchain does not run.
pub(super) fn help(dir: &Path, target: &str) -> String {
    match pinned(dir) {
        Some((file, channel)) => {
            format!("`{file}` requires it: run `rustup toolchain install {channel} --target {target}`")
        }
        None => format!(
            "run `rustup show` in the package to see what selects the toolchain, then `rustup toolchain install` with its name and `--target {target}`"
        ),
    }
}

/// Returns the nearest file that pins a toolchain, and the toolchain.
fn pinned(dir: &Path) -> Option<(&'static str, String)> {
    dir.ancestors().find_map(|dir| {
        FILES.iter().find_map(|file| {
            let text = fs_err::read_to_string(dir.join(file)).ok()?;
            Some((*file, channel(&text)?))
        })
    })
}

/// Returns the channel that a file names, in TOML or in the older single-line form.
fn channel(text: &str) -> Option<String> {
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
    fn both_forms_name_a_channel() {
        assert_eq!(channel("[toolchain]\nchannel = \"1.80\"\n").as_deref(), Some("1.80"));
        assert_eq!(channel("nightly-2024-01-01\n").as_deref(), Some("nightly-2024-01-01"));
        assert_eq!(channel("[toolchain]\npath = \"/x\"\n"), None);
        assert_eq!(channel("a b\n"), None);
        assert_eq!(channel(""), None);
    }
}
