//! What `.gitignore` keeps out of version control, and belongs into it.

use std::path::Path;

use ignore::Match;
use ignore::gitignore::Gitignore;

use crate::generate;
use crate::lock;
use crate::paths;
use crate::write::{Action, Change};

/// The name of the files.
const FILE: &str = ".gitignore";

/// Something that a pattern keeps out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// What: a file or directory, relative to the package.
    pub what: String,
    /// The file that the pattern stands in, relative to the package.
    pub file: String,
    /// The pattern.
    pub pattern: String,
}

/// What is new of what has to be committed, and is kept out: `src/generated`, `koze.lock`.
pub fn hidden(package: &Path, changes: &[Change]) -> Vec<Hidden> {
    let created = || changes.iter().filter(|change| change.action() == Action::Create);
    // Of what is generated, one file stands for all.
    let generated = created().find(|change| change.shown.starts_with(generate::DIR));
    let lock = created().find(|change| change.shown == lock::FILE);
    let named = [(generated, generate::DIR), (lock, lock::FILE)];
    named.into_iter().filter_map(|(change, what)| hides(package, &change?.path, what)).collect()
}

/// The pattern that decides on a file, where it keeps the file out: the nearest `.gitignore` that has one for it.
fn hides(package: &Path, path: &Path, what: &str) -> Option<Hidden> {
    for dir in path.ancestors().skip(1) {
        let file = dir.join(FILE);
        if file.is_file() {
            // git ignores a pattern that does not parse, too.
            let (patterns, _) = Gitignore::new(&file);
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
        // Above the repository git looks for none. Without one, the package's own may be there for later.
        if dir.join(".git").exists()
            || (dir == package && !package.ancestors().any(|dir| dir.join(".git").exists()))
        {
            return None;
        }
    }
    None
}
