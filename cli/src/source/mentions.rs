//! Where the sources of a package speak of a name: the places a person has to change by hand.

use walkdir::{DirEntry, WalkDir};

use crate::discover::Project;
use crate::generate;
use crate::paths;

/// A line that speaks of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The file, relative to the package.
    pub file: String,
    /// The line's number, from 1.
    pub line: usize,
    /// The line, without the space around it.
    pub text: String,
}

/// The languages a Worker is written in.
const ENDINGS: [&str; 6] = [".rs", ".ts", ".mts", ".js", ".mjs", ".tsx"];

/// Every line below `src` with one of the words in it, generated files left out.
pub fn of(project: &Project, words: &[&str]) -> Vec<Mention> {
    let src = project.dir.join("src");
    let generated = project.dir.join(generate::DIR);
    let wanted = |entry: &DirEntry| {
        let name = entry.file_name().to_string_lossy();
        let skipped = name.starts_with('.') || name == "target" || name == "node_modules";
        entry.depth() == 0 || (!skipped && entry.path() != generated)
    };
    let mut mentions = Vec::new();
    for entry in WalkDir::new(src).sort_by_file_name().into_iter().filter_entry(wanted).flatten() {
        let name = entry.file_name().to_string_lossy();
        if !entry.file_type().is_file() || !ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        // What cannot be read as text has no call sites.
        let Ok(text) = fs_err::read_to_string(entry.path()) else { continue };
        let file = paths::relative(entry.path(), &project.dir);
        let lines = text.lines().enumerate().filter(|(_, line)| words.iter().any(|word| has(line, word)));
        mentions.extend(lines.map(|(index, line)| Mention {
            file: file.clone(),
            line: index + 1,
            text: line.trim().to_owned(),
        }));
    }
    mentions
}

/// Whether a line has a word, not as a part of another.
fn has(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + word.len()..]);
        !before.ends_with(part) && !after.starts_with(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole() {
        assert!(has("env.Sandbox.get()", "Sandbox"));
        assert!(has("(\"Sandbox\")", "Sandbox"));
        assert!(!has("ShellSandbox", "Sandbox"));
        assert!(!has("Sandboxes", "Sandbox"));
        assert!(has("Sandboxes, Sandbox", "Sandbox"));
    }
}
