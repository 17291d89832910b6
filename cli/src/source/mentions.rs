//! Finds mentions of a name in the sources of a package, which the user has to change by hand.

use std::path::Path;

use walkdir::{DirEntry, WalkDir};

use crate::discover::{Project, is_skipped};
use crate::draft::Draft;
use crate::generate;
use crate::paths;
use crate::write::input;

/// A line that mentions a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The file, relative to the package.
    pub file: String,
    /// The line's number, from 1.
    pub line: usize,
    /// The line, trimmed.
    pub text: String,
}

/// The file extensions of the languages that Workers are written in.
const ENDINGS: [&str; 6] = [".rs", ".ts", ".mts", ".js", ".mjs", ".tsx"];

/// Directories of build output.
const BUILT: [&str; 2] = ["build", "dist"];

/// Returns every line of the package that contains one of the words, after the draft's changes. Skips generated files,
/// build output, and nested packages.
pub fn of(project: &Project, draft: &Draft, words: &[&str]) -> Vec<Mention> {
    let generated = project.dir.join(generate::DIR);
    let wanted = |entry: &DirEntry| {
        let name = entry.file_name().to_string_lossy();
        let skipped = is_skipped(&name) || BUILT.contains(&&*name);
        let package = entry.file_type().is_dir() && entry.path().join("Cargo.toml").is_file();
        entry.depth() == 0 || (!skipped && !package && entry.path() != generated)
    };
    let is_source = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ENDINGS.iter().any(|ending| name.ends_with(ending))
    };
    let walked = WalkDir::new(&project.dir).sort_by_file_name().into_iter().filter_entry(wanted).flatten();
    let files = walked.filter(|entry| entry.file_type().is_file()).map(DirEntry::into_path);
    let mut mentions = Vec::new();
    for path in files.chain(draft.ending(".rs").map(Path::to_owned)).filter(|path| is_source(path)) {
        let text = match draft.file(&path) {
            // Renamed files are listed with the drafted ones.
            Some(Some(bytes)) if !mentions_file(&mentions, &path, project) => bytes.to_vec(),
            Some(_) => continue,
            None => input::read(&path).unwrap_or_default(),
        };
        // A binary file contains no mentions.
        let Ok(text) = String::from_utf8(text) else { continue };
        let file = paths::relative(&path, &project.dir);
        let lines =
            text.lines().enumerate().filter(|(_, line)| words.iter().any(|word| has_word(line, word)));
        mentions.extend(lines.map(|(index, line)| Mention {
            file: file.clone(),
            line: index + 1,
            text: line.trim().to_owned(),
        }));
    }
    mentions
}

/// Returns whether the lines of a file are already in the list.
fn mentions_file(mentions: &[Mention], path: &Path, project: &Project) -> bool {
    let file = paths::relative(path, &project.dir);
    mentions.iter().any(|mention| mention.file == file)
}

/// Returns whether a line contains a whole word.
fn has_word(line: &str, word: &str) -> bool {
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
    fn only_whole_words_match() {
        assert!(has_word("env.Sandbox.get()", "Sandbox"));
        assert!(has_word("(\"Sandbox\")", "Sandbox"));
        assert!(!has_word("ShellSandbox", "Sandbox"));
        assert!(!has_word("Sandboxes", "Sandbox"));
        assert!(has_word("Sandboxes, Sandbox", "Sandbox"));
    }
}
