//! The rules of `.dockerignore`: later ones win, and `!` makes an exception.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

/// The rules.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    matcher: GlobMatcher,
    is_exception: bool,
}

impl Ignored {
    /// Parses the rules.
    ///
    /// # Errors
    /// Returns the number of the line that is not a pattern, and why.
    pub(super) fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut rules = Vec::new();
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let line = line.trim();
            if line.starts_with('#') {
                continue;
            }
            let (is_exception, pattern) = match line.strip_prefix('!') {
                Some(pattern) => (true, pattern.trim()),
                None => (false, line),
            };
            let parts: Vec<_> = pattern.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
            if parts.is_empty() {
                continue;
            }
            // Braces mean nothing in these rules.
            let pattern = parts.join("/").replace('{', "[{]").replace('}', "[}]");
            let glob = GlobBuilder::new(&pattern).literal_separator(true).backslash_escape(true).build();
            let glob = glob.map_err(|error| (index + 1, error.kind().to_string()))?;
            rules.push(Rule { matcher: glob.compile_matcher(), is_exception });
        }
        Ok(Ignored { rules })
    }

    /// Returns whether a path is left out of the context: it, or a directory above it, matches.
    pub(super) fn ignores(&self, path: &Path) -> bool {
        let matches = |rule: &&Rule| path.ancestors().any(|above| rule.matcher.is_match(above));
        self.rules.iter().rev().find(matches).is_some_and(|rule| !rule.is_exception)
    }

    /// Returns whether something below an ignored directory may be in the context.
    pub(super) fn has_exceptions(&self) -> bool {
        self.rules.iter().any(|rule| rule.is_exception)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_rules_win_and_patterns_start_at_the_root() {
        let rules =
            "# comment\n\n/target/\n*.log\n**/*.tmp\n!keep.tmp\nnode_modules\n!node_modules/mine\na{b}\n";
        let ignored = Ignored::parse(rules).unwrap();
        let left_out =
            ["target", "target/debug/x", "x.log", "a/x.tmp", "x.tmp", "node_modules/other/x", "a{b}"];
        for path in left_out {
            assert!(ignored.ignores(Path::new(path)), "{path}");
        }
        let kept = ["a/target", "a/x.log", "keep.tmp", "node_modules/mine/x", "src/main.rs", "ab", "#"];
        for path in kept {
            assert!(!ignored.ignores(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn an_invalid_pattern_is_an_error_with_its_line() {
        assert_eq!(Ignored::parse("a\n[b\n").unwrap_err().0, 2);
    }
}
