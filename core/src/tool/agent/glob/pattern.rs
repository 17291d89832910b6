//! Compiles path patterns to regular expressions, which match characters in linear time, whatever the pattern.

use std::iter::Peekable;
use std::mem::replace;
use std::str::Chars;

use regex_lite::Regex;

/// The expression for an asterisk.
const WITHIN_A_PART: &str = "[^/]*";

/// Compiles a pattern.
///
/// `?` matches one character and `*` any number of them, within one component of the path; `**` as a whole component
/// matches any number of components; `[a-z]` and `[!a-z]` match characters, `{a,b}` matches either, and `\` escapes a
/// character.
///
/// # Errors
/// The problem with the pattern, as the end of a sentence.
pub(in crate::tool) fn read(pattern: &str) -> Result<Regex, String> {
    let mut reader =
        Reader { rest: pattern.chars().peekable(), regex: "(?s)^".into(), begins: true, braces: vec![] };
    reader.read()?;
    reader.regex.push('$');
    Regex::new(&reader.regex).map_err(|_| "is too complex".to_owned())
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    /// The expression so far.
    regex: String,
    /// Whether a component of the path begins here.
    begins: bool,
    /// The same at each open brace.
    braces: Vec<bool>,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), &'static str> {
        while let Some(character) = self.rest.next() {
            let begins = replace(&mut self.begins, character == '/');
            match character {
                '?' => self.regex.push_str("[^/]"),
                '*' => self.asterisk(begins),
                '[' => self.class()?,
                '{' => {
                    self.regex.push_str("(?:");
                    self.braces.push(begins);
                    self.begins = begins;
                }
                ',' if let Some(begins) = self.braces.last() => {
                    self.regex.push('|');
                    self.begins = *begins;
                }
                '}' => {
                    self.braces.pop().ok_or("has an unmatched `}`")?;
                    self.regex.push(')');
                }
                '\\' => {
                    let literal = self.rest.next().ok_or("ends in a `\\`")?;
                    self.literal(literal);
                }
                literal => self.literal(literal),
            }
        }
        if self.braces.is_empty() { Ok(()) } else { Err("has an unclosed `{`") }
    }

    /// One asterisk, or two.
    fn asterisk(&mut self, begins: bool) {
        let two = self.rest.next_if_eq(&'*').is_some();
        match self.rest.peek() {
            Some('/') if two && begins => {
                self.rest.next();
                self.regex.push_str("(?:.*/)?");
                self.begins = true;
            }
            None if two && begins => self.regex.push_str(".*"),
            Some(',' | '}') if two && begins && !self.braces.is_empty() => self.regex.push_str(".*"),
            _ => self.regex.push_str(WITHIN_A_PART),
        }
    }

    /// Compiles a character class.
    fn class(&mut self) -> Result<(), &'static str> {
        const OPEN: &str = "has an unclosed `[`";
        self.regex.push('[');
        if self.rest.next_if(|character| matches!(character, '!' | '^')).is_some() {
            // A class never matches the path separator.
            self.regex.push_str("^/");
        }
        let mut first = true;
        loop {
            let from = self.rest.next().ok_or(OPEN)?;
            // A bracket that would make the class empty is its first character.
            if !replace(&mut first, false) && from == ']' {
                self.regex.push(']');
                return Ok(());
            }
            self.literal(from);
            let mut behind = self.rest.clone();
            // A hyphen at the end of a class is literal.
            if behind.next() == Some('-') && behind.next().is_some_and(|to| to != ']') {
                self.rest.next();
                let to = self.rest.next().ok_or(OPEN)?;
                if to < from {
                    return Err("has a character range that ends before it starts");
                }
                self.regex.push('-');
                self.literal(to);
            }
        }
    }

    fn literal(&mut self, character: char) {
        self.regex.push_str(&regex_lite::escape(character.encode_utf8(&mut [0; 4])));
    }
}

#[cfg(test)]
mod tests {
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
            let regex = read(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            for path in matching {
                assert!(regex.is_match(path), "{pattern} is not {path:?}");
            }
            for path in other {
                assert!(!regex.is_match(path), "{pattern} is {path:?}");
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
            let regex = read(pattern).unwrap();
            assert_eq!(regex.is_match(&path), pattern.ends_with("**"), "{pattern}");
        }
    }
}
