//! The pages name only tasks that exist. As an integration test it also makes `cargo test` build the program, which `.ci/run`
//! runs.

use std::path::Path;
use std::process::Command;

use fs_err as fs;

/// The pages and workflows that name tasks.
const PAGES: [&str; 5] = [
    "CONTRIBUTING.md",
    "README.md",
    "CHANGELOG.md",
    ".github/workflows/ci.yml",
    ".github/workflows/release.yml",
];

#[test]
fn the_pages_name_only_tasks_that_exist() {
    let help = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let is_task = |word: &str| {
        help.lines().any(|line| line.starts_with("  ") && line.split_whitespace().next() == Some(word))
    };
    assert!(is_task("test") && !is_task("no-such-task"), "{help}");

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut named = 0;
    for page in PAGES {
        let text = fs::read_to_string(root.join(page)).unwrap();
        for (_, rest) in text.match_indices("cargo xtask ").map(|(at, found)| text.split_at(at + found.len()))
        {
            let length = rest.find(|letter: char| !letter.is_ascii_lowercase() && letter != '-');
            let word = &rest[..length.unwrap_or(rest.len())];
            assert!(is_task(word), "{page}: `cargo xtask {word}`");
            named += 1;
        }
    }
    assert!(named > 10, "{named}");
}
