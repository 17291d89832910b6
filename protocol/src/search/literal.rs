//! A text without which a pattern matches nothing. Searching for it is much faster than matching every line.

use std::iter::Peekable;
use std::str::Chars;

use memchr::{memchr, memchr2, memmem};

/// The bytes that most texts have many of, the most common first. Searching for another one is faster.
const COMMON: &[u8] = b" etaoinsrlhdcumpfgybwvk_-.,/\"'()=:;0123456789";

/// A text that every match of a pattern has.
#[derive(Debug)]
pub(super) struct Literal {
    /// With `ignore_case`, in lower case.
    text: Vec<u8>,
    /// Set unless case is ignored.
    finder: Option<memmem::Finder<'static>>,
    /// The place of the least common byte.
    rare: usize,
    is_whole: bool,
}

impl Literal {
    /// Returns the longest text that a valid pattern requires, as far as it is easy to see.
    pub(super) fn required(pattern: &str, ignore_case: bool) -> Option<Self> {
        // Flags may change what everything else means.
        if pattern.contains("(?") {
            return None;
        }
        let mut reader = Reader {
            rest: pattern.chars().peekable(),
            run: String::new(),
            longest: String::new(),
            is_plain: true,
        };
        reader.read()?;
        // No character within a line is an end of it.
        let is_whole = reader.is_plain && !reader.run.contains(['\n', '\r']);
        reader.end_run();
        let text = reader.longest;
        if text.is_empty() {
            return None;
        }
        let text = if ignore_case { text.to_ascii_lowercase() } else { text }.into_bytes();
        let finder = (!ignore_case).then(|| memmem::Finder::new(&text).into_owned());
        let rank = |byte: &u8| COMMON.iter().position(|common| common == byte).unwrap_or(COMMON.len());
        let rare = (0..text.len()).max_by_key(|at| rank(&text[*at])).unwrap_or_default();
        Some(Literal { text, finder, rare, is_whole })
    }

    /// Returns whether a line matches if it has the text.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns where the text begins.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<usize> {
        if let Some(finder) = &self.finder {
            return finder.find(bytes);
        }
        let (lower, mut from) = (self.text[self.rare], self.rare);
        let upper = lower.to_ascii_uppercase();
        loop {
            let rest = bytes.get(from..)?;
            let hit = if lower == upper { memchr(lower, rest)? } else { memchr2(lower, upper, rest)? };
            let start = from + hit - self.rare;
            let found = bytes.get(start..start + self.text.len())?;
            if found.eq_ignore_ascii_case(&self.text) {
                return Some(start);
            }
            from += hit + 1;
        }
    }
}

/// Reads a pattern. What it does not know, it takes for something that may match anything.
struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    /// The literal characters before the current place.
    run: String,
    longest: String,
    /// Whether there were literal characters only.
    is_plain: bool,
}

impl Reader<'_> {
    /// Reads the whole pattern. Returns `None` if it requires no text, or is not easy.
    fn read(&mut self) -> Option<()> {
        while let Some(character) = self.rest.next() {
            match character {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                '|' => return None,
                '*' | '?' => {
                    // The character before it may be missing.
                    self.run.pop();
                    self.end_run();
                }
                '{' => {
                    self.run.pop();
                    self.end_run();
                    self.rest.by_ref().find(|character| *character == '}');
                }
                // Bytes that are not UTF-8 become this character.
                '+' | '.' | '^' | '$' | '\u{fffd}' => self.end_run(),
                literal => self.run.push(literal),
            }
        }
        Some(())
    }

    fn end_run(&mut self) {
        self.is_plain = false;
        if self.run.len() > self.longest.len() {
            self.longest = std::mem::take(&mut self.run);
        }
        self.run.clear();
    }

    fn escape(&mut self) -> Option<()> {
        match self.rest.next()? {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'b' | 'B' | 'A' | 'z' | '<' | '>' => self.end_run(),
            other if other.is_ascii_alphanumeric() => return None,
            '\u{fffd}' => self.end_run(),
            literal => self.run.push(literal),
        }
        Some(())
    }

    /// Skips a class of characters.
    fn class(&mut self) -> Option<()> {
        self.end_run();
        self.rest.next_if_eq(&'^');
        self.rest.next_if_eq(&']');
        loop {
            match self.rest.next()? {
                ']' => return Some(()),
                '\\' => drop(self.rest.next()),
                '[' => return None,
                _ => {}
            }
        }
    }

    /// Skips a group, which may be optional, or have alternatives.
    fn group(&mut self) -> Option<()> {
        self.end_run();
        let mut depth = 1;
        while depth > 0 {
            match self.rest.next()? {
                '\\' => drop(self.rest.next()),
                '[' => self.class()?,
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
        }
        Some(())
    }
}
