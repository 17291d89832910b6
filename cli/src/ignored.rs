//! Finds files that belong in version control but that `.gitignore` excludes.

use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::generate;
use crate::lock;
use crate::paths;
use crate::write::{Action, Change, input};

/// The name of the ignore files.
const FILE: &str = ".gitignore";

/// A file that a pattern excludes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// The file or directory, relative to the package.
    pub what: String,
    /// The ignore file that contains the pattern, relative to the package.
    pub file: String,
    /// The pattern.
    pub pattern: String,
}

/// Returns the new files that must be committed but are excluded: `src/generated`, the engine of scripts in it, `koze.lock`.
pub fn hidden(package: &Path, changes: &[Change]) -> Vec<Hidden> {
    let created = || changes.iter().filter(|change| change.action() == Action::Create);
    // One file represents all generated ones.
    let generated = created().find(|change| change.shown.starts_with(generate::DIR));
    let lock = created().find(|change| change.shown == lock::FILE);
    let hides = |change: Option<&Change>, what: &str| find_pattern(package, &change?.path, what);
    // Patterns such as `*.wasm` exclude it alone.
    let engine = format!("{}/{}/{}", generate::DIR, generate::KOZE, generate::ENGINE);
    let engine = || hides(created().find(|change| change.shown == engine), &engine);
    hides(generated, generate::DIR).or_else(engine).into_iter().chain(hides(lock, lock::FILE)).collect()
}

/// Returns the pattern that excludes a file. The nearest `.gitignore` with a matching pattern decides.
fn find_pattern(package: &Path, path: &Path, what: &str) -> Option<Hidden> {
    for dir in path.ancestors().skip(1) {
        let file = dir.join(FILE);
        if let Ok(text) = input::read_text_in(dir, &file) {
            let mut patterns = GitignoreBuilder::new(dir);
            for line in text.trim_start_matches('\u{feff}').lines() {
                // git also ignores invalid patterns.
                let _ = patterns.add_line(None, line);
            }
            let patterns = patterns.build().unwrap_or_else(|_| Gitignore::empty());
            match patterns.matched_path_or_any_parents(path, false) {
                Match::Ignore(pattern) => {
                    let pattern = pattern.original().to_owned();
                    return Some(Hidden {
                        what: what.to_owned(),
                        file: paths::relative(&file, package),
                        pattern,
                    });
                }
                Match::Whitelist(_) => return None,
                Match::None => {}
            }
        }
        // git does not look above the repository. Without a repository, only the package's file counts.
        if dir.join(".git").exists()
            || (dir == package && !package.ancestors().any(|dir| dir.join(".git").exists()))
        {
            return None;
        }
    }
    None
}
