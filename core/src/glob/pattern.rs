//! Reads path patterns: [`program`](super::program) matches them, and the search in a sandbox does by a regular expression.

use std::iter::Peekable;
use std::mem::replace;
use std::str::Chars;

use super::program::{Pattern, Step};

/// The most braces that may be open at once.
const MAX_BRACES: usize = 50;

/// Reads a pattern.
///
/// `?` matches one character and `*` any number of them, within one component of the path; `**` as a whole component
/// matches any number of components; `[a-z]` and `[!a-z]` match characters, `{a,b}` matches either, and `\` escapes a
/// character.
///
/// # Errors
/// The problem with the pattern, as the end of a sentence.
pub(crate) fn read(pattern: &str) -> Result<Pattern, String> {
    let mut reader = Reader {
        rest: pattern.chars().peekable(),
        steps: Vec::new(),
        regex: "(?s)^".into(),
        begins: true,
        braces: Vec::new(),
    };
    reader.read_pattern()?;
    reader.regex.push('$');
    Ok(Pattern::new(reader.steps, reader.regex))
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    /// The program so far.
    steps: Vec<Step>,
    /// The same as a regular expression.
    regex: String,
    /// Whether a component of the path begins here.
    begins: bool,
    /// The open braces.
    braces: Vec<Brace>,
}

/// An open brace.
struct Brace {
    /// Whether a component of the path begins there.
    begins: bool,
    /// The place of the fork before the current alternative.
    fork: usize,
    /// The places of the jumps at the ends of the other alternatives.
    jumps: Vec<usize>,
}

impl Reader<'_> {
    fn read_pattern(&mut self) -> Result<(), &'static str> {
        while let Some(character) = self.rest.next() {
            let begins = replace(&mut self.begins, character == '/');
            match character {
                '?' => {
                    self.steps.push(Step::InComponent);
                    self.regex.push_str("[^/]");
                }
                '*' => self.read_asterisks(begins),
                '[' => self.read_class()?,
                '{' if self.braces.len() == MAX_BRACES => return Err("is too complex"),
                '{' => {
                    self.regex.push_str("(?:");
                    let fork = self.add_fork();
                    self.braces.push(Brace { begins, fork, jumps: Vec::new() });
                    self.begins = begins;
                }
                ',' if !self.braces.is_empty() => self.start_alternative(),
                '}' => {
                    let brace = self.braces.pop().ok_or("has an unmatched `}`")?;
                    self.regex.push(')');
                    for jump in brace.jumps {
                        self.steps[jump] = Step::Jump(self.steps.len());
                    }
                }
                '\\' => {
                    let literal = self.rest.next().ok_or("ends in a `\\`")?;
                    self.add_literal(literal);
                }
                literal => self.add_literal(literal),
            }
        }
        if self.braces.is_empty() { Ok(()) } else { Err("has an unclosed `{`") }
    }

    /// Adds a fork that leads to the next step only, until there is another way. Returns its place.
    fn add_fork(&mut self) -> usize {
        let fork = self.steps.len();
        self.steps.push(Step::Fork(fork + 1));
        fork
    }

    /// Ends an alternative, and begins the next one.
    fn start_alternative(&mut self) {
        let (jump, other) = (self.steps.len(), self.steps.len() + 1);
        let Some(brace) = self.braces.last_mut() else { return };
        brace.jumps.push(jump);
        self.steps[replace(&mut brace.fork, other)] = Step::Fork(other);
        self.begins = brace.begins;
        self.regex.push('|');
        // The closing brace says where it leads.
        self.steps.push(Step::Jump(jump));
        self.add_fork();
    }

    /// One asterisk, or two.
    fn read_asterisks(&mut self, begins: bool) {
        let two = self.rest.next_if_eq(&'*').is_some();
        match self.rest.peek() {
            Some('/') if two && begins => {
                self.rest.next();
                self.regex.push_str("(?:");
                let fork = self.add_fork();
                self.add_repetition(Step::Any, ".*");
                self.add_literal('/');
                self.steps[fork] = Step::Fork(self.steps.len());
                self.regex.push_str(")?");
                self.begins = true;
            }
            None if two && begins => self.add_repetition(Step::Any, ".*"),
            Some(',' | '}') if two && begins && !self.braces.is_empty() => {
                self.add_repetition(Step::Any, ".*");
            }
            _ => self.add_repetition(Step::InComponent, "[^/]*"),
        }
    }

    /// Adds a step that is taken any number of times.
    fn add_repetition(&mut self, step: Step, regex: &str) {
        self.regex.push_str(regex);
        let fork = self.add_fork();
        self.steps.extend([step, Step::Jump(fork)]);
        self.steps[fork] = Step::Fork(self.steps.len());
    }

    /// Reads a character class.
    fn read_class(&mut self) -> Result<(), &'static str> {
        const OPEN: &str = "has an unclosed `[`";
        let mut ranges = Vec::new();
        self.regex.push('[');
        let negated = self.rest.next_if(|character| matches!(character, '!' | '^')).is_some();
        if negated {
            self.regex.push_str("^/");
        }
        let mut first = true;
        loop {
            let from = self.rest.next().ok_or(OPEN)?;
            // A bracket that would make the class empty is its first character.
            if !replace(&mut first, false) && from == ']' {
                self.regex.push(']');
                self.steps.push(Step::Class { negated, ranges });
                return Ok(());
            }
            self.push_escaped(from);
            let mut behind = self.rest.clone();
            let mut to = from;
            // A hyphen at the end of a class is literal.
            if behind.next() == Some('-') && behind.next().is_some_and(|to| to != ']') {
                self.rest.next();
                to = self.rest.next().ok_or(OPEN)?;
                if to < from {
                    return Err("has a character range that ends before it starts");
                }
                self.regex.push('-');
                self.push_escaped(to);
            }
            ranges.push(from..=to);
        }
    }

    fn add_literal(&mut self, character: char) {
        self.steps.push(Step::Character(character));
        self.push_escaped(character);
    }

    /// Adds a character to the regular expression.
    fn push_escaped(&mut self, character: char) {
        self.regex.push_str(&regex_lite::escape(character.encode_utf8(&mut [0; 4])));
    }
}

#[cfg(test)]
mod tests {
    use regex_lite::Regex;

    use super::*;

    #[test]
    fn patterns_match_what_they_say() {
        for (pattern, matching, other) in [
            ("a.rs", &["a.rs"][..], &["a-rs", "xa.rs", "a.rsx", "A.rs", "a.rs\n"][..]),
            ("*", &["a", ".a", "a\nb", ""], &["a/b"]),
            ("a*b", &["ab", "a.b"], &["a/b", "abc"]),
            ("?", &["a", "日", "é", "\n"], &["", "ab", "/"]),
            ("a**b", &["ab", "axb"], &["a/b"]),
            ("**", &["a", "a/b", "a/b/c"], &[]),
            ("**/a", &["a", "b/a", "b/c/a"], &["ba", "b/ca", "a/b"]),
            ("a/**", &["a/b", "a/b/c"], &["a", "b/a"]),
            ("a/**/b", &["a/b", "a/c/b", "a/c/d/b"], &["a/cb", "ab"]),
            ("a/***", &["a/b"], &["a/b/c"]),
            ("[ab]", &["a", "b"], &["c", "ab", "[ab]"]),
            ("[a-cx]", &["b", "x"], &["d", "-"]),
            ("[à-ï]", &["é"], &["e", "日"]),
            ("[!a]", &["b", "é"], &["a", "/"]),
            ("[^a]", &["b"], &["a"]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[!]a]", &["b"], &["]", "a"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[-a]", &["a", "-"], &["b"]),
            ("[[]", &["["], &["a"]),
            ("[{*?,\\]", &["{", "*", "?", ",", "\\"], &["a"]),
            ("[&&~~^]", &["&", "~", "^"], &["a"]),
            ("{a,b}", &["a", "b"], &["c", "ab", "{a,b}"]),
            ("{a,{b,c}d}", &["a", "bd", "cd"], &["b", "d"]),
            ("{,a}b", &["b", "ab"], &["a"]),
            ("{}a", &["a"], &["b"]),
            ("{**/a,b}", &["a", "c/a", "b"], &["c/b", "ca"]),
            ("a/{b,**}", &["a/b", "a/c/d"], &["b"]),
            ("{a/,}b", &["a/b", "b"], &["a"]),
            ("a,b", &["a,b"], &["a"]),
            ("a]", &["a]"], &["a"]),
            ("!a", &["!a"], &["b"]),
            ("\\*", &["*"], &["a", "\\*"]),
            ("\\{a\\}", &["{a}"], &["a"]),
            ("\\d(a|b)+$.", &["d(a|b)+$."], &["1a", "dab"]),
        ] {
            let read = read(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            let regex = Regex::new(read.as_regex()).unwrap();
            for (paths, expected) in [(matching, true), (other, false)] {
                for path in paths {
                    assert_eq!(read.is_match(path), expected, "{pattern} and {path:?}");
                    assert_eq!(regex.is_match(path), expected, "{pattern} as {regex}, and {path:?}");
                }
            }
        }
    }

    #[test]
    fn invalid_patterns() {
        let deep = format!("{}a{}", "{".repeat(2000), "}".repeat(2000));
        for pattern in
            ["[", "[a", "[]", "[!]", "[!", "[b-a]", "[a-", "{a", "{{a}", "a}", "{a}}", "a\\", &deep]
        {
            assert!(read(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn no_pattern_takes_long() {
        let path = "a".repeat(500);
        for pattern in
            ["*a*a*a*a*a*a*a*a*b", "**/*a*a*a*a*a*a*b/**/c", &"{a,b}".repeat(200), &"*".repeat(600)]
        {
            let read = read(pattern).unwrap();
            assert_eq!(read.is_match(&path), pattern.ends_with("**"), "{pattern}");
        }
    }
}
