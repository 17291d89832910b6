//! Replaces a text in the bytes of a file. Everything else in the file stays as it is, whatever its encoding.

use memchr::memmem::{self, Finder};
use serde::{Deserialize, Serialize};

/// The maximum size of a file that can be edited, before and after the edit, in bytes.
pub const MAX_EDITED: u64 = 16 << 20;
/// The maximum length of the old text and of the new text, in bytes.
pub const MAX_EDIT_TEXT: usize = 4 << 20;
/// The maximum number of lines that [`Edited::Ambiguous`] names.
pub const MAX_NAMED_LINES: usize = 10;
/// The maximum length of the text of a [`NearestLine`], in characters.
pub const MAX_NEAREST_TEXT: usize = 200;

/// A text to replace in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The bytes to replace. They must not be empty.
    pub old: Vec<u8>,
    /// The bytes that replace them.
    pub new: Vec<u8>,
    /// Whether to replace every occurrence. Otherwise there must be exactly one.
    pub all: bool,
}

/// The result of an edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "snake_case")]
pub enum Edited {
    /// The file was changed.
    Done {
        /// The size of the file now, in bytes.
        #[cfg_attr(feature = "ts", ts(type = "number"))]
        size: u64,
        /// The number of replaced occurrences.
        #[cfg_attr(feature = "ts", ts(type = "number"))]
        replaced: u64,
    },
    /// The old text does not occur. Nothing was changed.
    NotFound {
        /// Where it would occur if white space were ignored.
        nearest: Option<NearestLine>,
    },
    /// The old text occurs more than once. Nothing was changed.
    Ambiguous {
        /// The number of occurrences, at least 2. Overlapping occurrences count as one, unless there are no others.
        #[cfg_attr(feature = "ts", ts(type = "number"))]
        occurrences: u64,
        /// The lines in which the first occurrences begin, counted from 1: at most [`MAX_NAMED_LINES`].
        #[cfg_attr(feature = "ts", ts(type = "number[]"))]
        lines: Vec<u64>,
    },
}

/// The line in which a text would begin if white space were ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct NearestLine {
    /// Its number, counted from 1.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub number: u64,
    /// Its text: at most [`MAX_NEAREST_TEXT`] characters. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub text: String,
}

/// Why an edit cannot be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// The old text is empty.
    EmptyOld,
    /// The old or the new text is longer than [`MAX_EDIT_TEXT`].
    TextTooLong,
    /// The file is larger than [`MAX_EDITED`], or would be after the edit.
    FileTooLarge,
}

impl Rejected {
    /// Returns the reason as a sentence about the file at a path.
    pub fn message(self, path: &str) -> String {
        match self {
            Rejected::EmptyOld => "the text to replace must not be empty".to_owned(),
            Rejected::TextTooLong => {
                format!(
                    "the text to replace and its replacement must each have at most {MAX_EDIT_TEXT} bytes"
                )
            }
            Rejected::FileTooLarge => format!(
                "{path} is too large to edit: it must have at most {MAX_EDITED} bytes before and after the edit; use a command instead"
            ),
        }
    }
}

/// What an edit does to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// The file gets this content.
    Changed {
        /// The bytes.
        content: Vec<u8>,
        /// The number of replaced occurrences.
        replaced: u64,
    },
    /// The file stays as it is: [`Edited::NotFound`] or [`Edited::Ambiguous`].
    Unchanged(Edited),
}

impl Edit {
    /// Validates the texts.
    ///
    /// # Errors
    /// [`Rejected::EmptyOld`] and [`Rejected::TextTooLong`].
    pub fn check(&self) -> Result<(), Rejected> {
        if self.old.is_empty() {
            return Err(Rejected::EmptyOld);
        }
        if self.old.len().max(self.new.len()) > MAX_EDIT_TEXT {
            return Err(Rejected::TextTooLong);
        }
        Ok(())
    }

    /// Applies the edit to the content of a file. The time it takes is linear in the sizes of the content and the texts.
    ///
    /// # Errors
    /// See [`Rejected`].
    pub fn apply(&self, content: &[u8]) -> Result<Applied, Rejected> {
        self.check()?;
        if content.len() as u64 > MAX_EDITED {
            return Err(Rejected::FileTooLarge);
        }
        let old = Finder::new(&self.old);
        let Some(first) = old.find(content) else {
            return Ok(Applied::Unchanged(Edited::NotFound { nearest: nearest(content, &self.old) }));
        };
        let occurrences = old.find_iter(content).count() as u64;
        if !self.all {
            let overlapping = || old.find(&content[first + 1..]).map(|at| first + 1 + at);
            if occurrences > 1 {
                return Ok(ambiguous(content, occurrences, old.find_iter(content)));
            }
            if let Some(second) = overlapping() {
                return Ok(ambiguous(content, 2, [first, second].into_iter()));
            }
        }
        let size = content.len() as u64 - occurrences * self.old.len() as u64
            + occurrences.saturating_mul(self.new.len() as u64);
        if size > MAX_EDITED {
            return Err(Rejected::FileTooLarge);
        }
        let mut changed = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        let mut rest = 0;
        for at in old.find_iter(content) {
            changed.extend_from_slice(&content[rest..at]);
            changed.extend_from_slice(&self.new);
            rest = at + self.old.len();
        }
        changed.extend_from_slice(&content[rest..]);
        Ok(Applied::Changed { content: changed, replaced: occurrences })
    }
}

/// Names the lines of the first occurrences, whose positions ascend.
fn ambiguous(content: &[u8], occurrences: u64, at: impl Iterator<Item = usize>) -> Applied {
    let (mut line, mut counted) = (1, 0);
    let lines = at.take(MAX_NAMED_LINES).map(|at| {
        line += newlines(&content[counted..at]);
        counted = at;
        line
    });
    Applied::Unchanged(Edited::Ambiguous { occurrences, lines: lines.collect() })
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Finds a text without regard to ASCII white space.
fn nearest(content: &[u8], old: &[u8]) -> Option<NearestLine> {
    let solid = |bytes: &[u8]| -> Vec<u8> {
        bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect()
    };
    let sought = solid(old);
    if sought.is_empty() {
        return None;
    }
    let found = memmem::find(&solid(content), &sought)?;
    let (at, _) = content.iter().enumerate().filter(|(_, byte)| !byte.is_ascii_whitespace()).nth(found)?;
    let start = memchr::memrchr(b'\n', &content[..at]).map_or(0, |newline| newline + 1);
    let end = memchr::memchr(b'\n', &content[at..]).map_or(content.len(), |length| at + length);
    let line = &content[start..end];
    // A character has at most 4 bytes, so the rest of a long line is not decoded.
    let line = &line[..line.len().min(4 * MAX_NEAREST_TEXT)];
    let text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
    Some(NearestLine {
        number: newlines(&content[..start]) + 1,
        text: text.chars().take(MAX_NEAREST_TEXT).collect(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(old: &[u8], new: &[u8], all: bool) -> Edit {
        Edit { old: old.to_vec(), new: new.to_vec(), all }
    }

    fn once(content: &[u8], old: &[u8], new: &[u8]) -> Applied {
        edit(old, new, false).apply(content).unwrap()
    }

    fn changed(content: &[u8], replaced: u64) -> Applied {
        Applied::Changed { content: content.to_vec(), replaced }
    }

    fn not_found(number: u64, text: &str) -> Applied {
        let nearest = Some(NearestLine { number, text: text.to_owned() });
        Applied::Unchanged(Edited::NotFound { nearest })
    }

    #[test]
    fn one_occurrence_is_replaced() {
        assert_eq!(once(b"a b c", b"b", b"$1 \\0"), changed(b"a $1 \\0 c", 1));
        assert_eq!(once(b"a b c", b"a b c", b""), changed(b"", 1));
        assert_eq!(
            once(b"\xef\xbb\xbfa\r\n\t\xff\0b", b"\xff\0", b"\xfe"),
            changed(b"\xef\xbb\xbfa\r\n\t\xfeb", 1)
        );
        assert_eq!(edit(b"a", b"aa", true).apply(b"aba").unwrap(), changed(b"aabaa", 2));
        assert_eq!(edit(b"aa", b"b", true).apply(b"aaaaa").unwrap(), changed(b"bba", 2));
    }

    #[test]
    fn several_occurrences_are_ambiguous() {
        let ambiguous = |occurrences, lines: &[u64]| {
            Applied::Unchanged(Edited::Ambiguous { occurrences, lines: lines.to_vec() })
        };
        assert_eq!(once(b"x\nx\r\n\nx x", b"x", b"y"), ambiguous(4, &[1, 2, 4, 4]));
        assert_eq!(once(b"\naXaXa\n", b"aXa", b""), ambiguous(2, &[2, 2]), "they overlap");
        assert_eq!(once(b"aaaa", b"aa", b""), ambiguous(2, &[1, 1]));
        let many = b"x\n".repeat(1000);
        assert_eq!(once(&many, b"x\n", b""), ambiguous(1000, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
    }

    #[test]
    fn the_nearest_line_ignores_white_space() {
        assert_eq!(once(b"1\n\tif (a) {\r\n  b;\n}\n", b"if (a) {\n\tb;", b""), not_found(2, "\tif (a) {"));
        assert_eq!(once(b"ab \xff c\n", b"b\xffc", b""), not_found(1, "ab \u{fffd} c"));
        let long = format!("{}\n", "\u{e9} ".repeat(300));
        let expected: String = long.chars().take(MAX_NEAREST_TEXT).collect();
        assert_eq!(once(long.as_bytes(), "\u{e9}\u{e9}".as_bytes(), b""), not_found(1, &expected));
        let nothing = Applied::Unchanged(Edited::NotFound { nearest: None });
        assert_eq!(once(b"a", b"b", b""), nothing);
        assert_eq!(once(b"a\n", b" ", b""), nothing);
        assert_eq!(once(b"", b"a", b""), nothing);
    }

    #[test]
    fn limits() {
        let apply = |content: &[u8], old: &[u8], new: &[u8], all| edit(old, new, all).apply(content);
        assert_eq!(apply(b"a", b"", b"b", true), Err(Rejected::EmptyOld));
        let long = vec![b'a'; MAX_EDIT_TEXT + 1];
        assert_eq!(apply(b"a", &long, b"", true), Err(Rejected::TextTooLong));
        assert_eq!(apply(b"a", b"a", &long, true), Err(Rejected::TextTooLong));
        let largest = vec![b'a'; usize::try_from(MAX_EDITED).unwrap()];
        assert_eq!(
            apply(&largest, &long[1..], b"", true),
            Ok(changed(b"", MAX_EDITED / long[1..].len() as u64))
        );
        assert_eq!(apply(&[&largest[..], b"b"].concat(), b"b", b"", false), Err(Rejected::FileTooLarge));
        // It would have 64 TiB.
        assert_eq!(apply(&largest, b"a", &long[1..], true), Err(Rejected::FileTooLarge));
    }

    proptest! {
        #[test]
        fn as_the_standard_library_replaces(content in "[ab\n ]{0,40}", old in "[ab\n ]{1,3}", new in "[ab$\\\\]{0,3}") {
            let expected = content.replace(&old, &new);
            let count = content.matches(&old).count() as u64;
            let all = edit(old.as_bytes(), new.as_bytes(), true).apply(content.as_bytes()).unwrap();
            match all {
                Applied::Changed { content, replaced } => {
                    prop_assert_eq!(content, expected.as_bytes());
                    prop_assert_eq!(replaced, count);
                }
                Applied::Unchanged(Edited::NotFound { .. }) => prop_assert_eq!(count, 0),
                other @ Applied::Unchanged(_) => prop_assert!(false, "{:?}", other),
            }
            let starts = content.char_indices().filter(|(at, _)| content[*at..].starts_with(&old)).count();
            match once(content.as_bytes(), old.as_bytes(), new.as_bytes()) {
                Applied::Changed { content, replaced: 1 } => {
                    prop_assert_eq!(starts, 1);
                    prop_assert_eq!(content, expected.as_bytes());
                }
                Applied::Unchanged(Edited::NotFound { .. }) => prop_assert_eq!(starts, 0),
                Applied::Unchanged(Edited::Ambiguous { occurrences, .. }) => {
                    prop_assert!(starts > 1);
                    prop_assert_eq!(occurrences, count.max(2));
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
