//! Reads lines of a text whose bytes arrive in pieces, in memory that does not depend on the length of its lines.

use memchr::{memchr_iter, memmem};
use serde::{Deserialize, Serialize};

/// The maximum of [`LineRange::max_chars`]: so many characters have at most 8 MiB.
pub const MAX_CHARS: u64 = 2 << 20;
/// The maximum number of bytes read of a file that reports a size of 0 and has content, as those in `/proc` do.
pub const MAX_UNSIZED: u64 = 16 << 20;

/// Which lines of a file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRange {
    /// The first line, counted from 1.
    pub first: u64,
    /// The last line, which is included; `None` for the last one of the file.
    pub last: Option<u64>,
    /// The maximum number of characters to return, at most [`MAX_CHARS`].
    pub max_chars: u64,
    /// Whether to return the bytes as they are, including the end of the last line. Otherwise lines are joined by `\n`:
    /// `\r\n` becomes `\n`, and the end of the last line is left out.
    pub verbatim: bool,
}

/// Lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    /// The first characters of the range, at most [`LineRange::max_chars`]. Empty if the file is binary.
    pub text: String,
    /// The number of characters of the whole range.
    pub chars: u64,
    /// Whether the file has fewer lines than [`LineRange::first`]. An empty file has no lines, and a final line ending
    /// starts no line.
    pub past_end: bool,
    /// Whether something from the start of the file to the end of the range is not UTF-8. Reading ends there, so the other fields
    /// except `size` are not meaningful.
    pub binary: bool,
    /// The size of the file, in bytes.
    pub size: u64,
}

/// Why a range is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidRange {
    /// The first line is 0.
    Zero,
    /// The last line is before the first.
    Reversed,
    /// More than [`MAX_CHARS`] characters were requested.
    TooManyChars,
}

impl InvalidRange {
    /// Returns the reason as a sentence.
    pub fn message(self) -> String {
        match self {
            InvalidRange::Zero => "lines are counted from 1: the first line must be at least 1".to_owned(),
            InvalidRange::Reversed => "the last line must not be before the first line".to_owned(),
            InvalidRange::TooManyChars => format!("at most {MAX_CHARS} characters can be read at once"),
        }
    }
}

/// Takes a file from its start, piece by piece, until it has the lines of a range.
#[derive(Debug)]
pub struct LineReader {
    range: LineRange,
    /// The number of the current line, and whether it has any bytes yet.
    line: u64,
    started: bool,
    /// The bytes of a character that is not complete yet.
    partial: Vec<u8>,
    /// Ends of lines that are only part of the text if more text follows.
    held: Held,
    found: Lines,
    done: bool,
}

/// What was read and is not yet known to be part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    /// A `\r`, which is left out before `\n`.
    Return,
    /// The end of a line, which is left out if it is the last one.
    Newline,
}

impl LineReader {
    /// Starts to read a range.
    ///
    /// # Errors
    /// See [`InvalidRange`].
    pub fn new(range: LineRange) -> Result<Self, InvalidRange> {
        if range.first == 0 {
            return Err(InvalidRange::Zero);
        }
        if range.last.is_some_and(|last| last < range.first) {
            return Err(InvalidRange::Reversed);
        }
        if range.max_chars > MAX_CHARS {
            return Err(InvalidRange::TooManyChars);
        }
        let found = Lines { text: String::new(), chars: 0, past_end: false, binary: false, size: 0 };
        let (partial, held) = (Vec::new(), Held::Nothing);
        Ok(LineReader { range, line: 1, started: false, partial, held, found, done: false })
    }

    /// Takes the next piece. Returns whether it needs more.
    pub fn feed(&mut self, piece: &[u8]) -> bool {
        let mut rest = piece;
        while !self.done && !rest.is_empty() {
            let wanted = self.line >= self.range.first;
            let until = if wanted { self.range.last } else { Some(self.range.first - 1) };
            let (taken, newlines) = up_to(rest, until.map(|until| until - self.line + 1));
            self.line += newlines;
            self.started = rest[taken - 1] != b'\n';
            if !self.take(&rest[..taken], wanted) {
                self.found.binary = true;
                self.done = true;
            }
            rest = &rest[taken..];
            self.done |= self.range.last.is_some_and(|last| self.line > last);
        }
        !self.done
    }

    /// Takes the text out that was found so far, for a caller that passes it on. If the file turns out to be binary, it must
    /// be discarded.
    pub fn drain(&mut self) -> String {
        std::mem::take(&mut self.found.text)
    }

    /// Returns the lines, once nothing more is needed or the file has ended. `size` is the size of the file.
    pub fn finish(mut self, size: u64) -> Lines {
        self.found.binary |= !self.partial.is_empty();
        if self.found.binary {
            self.found.text.clear();
            self.found.chars = 0;
        } else {
            // A `\r` at the end of the file ends no line.
            if self.held == Held::Return {
                self.emit("\r");
            }
            let lines = if self.started { self.line } else { self.line - 1 };
            self.found.past_end = lines < self.range.first;
        }
        self.found.size = size;
        self.found
    }

    /// Takes bytes that are all wanted, or all skipped. Returns whether they are text.
    fn take(&mut self, bytes: &[u8], wanted: bool) -> bool {
        let mut rest = bytes;
        while !self.partial.is_empty() {
            let Some((first, after)) = rest.split_first() else { return true };
            self.partial.push(*first);
            rest = after;
            match std::str::from_utf8(&self.partial) {
                Ok(_) => {
                    let character = std::mem::take(&mut self.partial);
                    if let (true, Ok(text)) = (wanted, std::str::from_utf8(&character)) {
                        self.text(text);
                    }
                }
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return false,
            }
        }
        let (text, end) = match std::str::from_utf8(rest) {
            Ok(text) => (text, &[][..]),
            Err(error) if error.error_len().is_none() => {
                let (valid, end) = rest.split_at(error.valid_up_to());
                (std::str::from_utf8(valid).unwrap_or_default(), end)
            }
            Err(_) => return false,
        };
        self.partial = end.to_vec();
        if wanted {
            self.text(text);
        }
        true
    }

    /// Adds text of the range.
    fn text(&mut self, text: &str) {
        if self.range.verbatim {
            return self.emit(text);
        }
        let Some(last) = text.as_bytes().last() else { return };
        match self.held {
            Held::Return if !text.starts_with('\n') => self.emit("\r"),
            Held::Newline => self.emit("\n"),
            _ => {}
        }
        let (text, held) = match last {
            b'\n' => {
                let line = &text[..text.len() - 1];
                (line.strip_suffix('\r').unwrap_or(line), Held::Newline)
            }
            b'\r' => (&text[..text.len() - 1], Held::Return),
            _ => (text, Held::Nothing),
        };
        self.held = held;
        let mut rest = text;
        while let Some(at) = memmem::find(rest.as_bytes(), b"\r\n") {
            self.emit(&rest[..at]);
            self.emit("\n");
            rest = &rest[at + 2..];
        }
        self.emit(rest);
    }

    /// Counts characters, and keeps them while there is room.
    fn emit(&mut self, text: &str) {
        let count = text.chars().count() as u64;
        let room = self.range.max_chars.saturating_sub(self.found.chars);
        self.found.chars += count;
        if count <= room {
            self.found.text.push_str(text);
        } else if room > 0 {
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            let end = text.char_indices().nth(room).map_or(text.len(), |(at, _)| at);
            self.found.text.push_str(&text[..end]);
        }
    }
}

/// Returns how many of the bytes belong to the next lines, and how many of these lines end there.
fn up_to(bytes: &[u8], lines: Option<u64>) -> (usize, u64) {
    let mut newlines = 0;
    for at in memchr_iter(b'\n', bytes) {
        newlines += 1;
        if lines == Some(newlines) {
            return (at + 1, newlines);
        }
    }
    (bytes.len(), newlines)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: LineRange = LineRange { first: 1, last: None, max_chars: MAX_CHARS, verbatim: false };

    fn read(content: &[u8], range: LineRange, piece: usize) -> Lines {
        let mut reader = LineReader::new(range).unwrap();
        for piece in content.chunks(piece) {
            if !reader.feed(piece) {
                break;
            }
        }
        reader.finish(content.len() as u64)
    }

    /// What [`read`] returns for text, by the standard library alone.
    fn expected(content: &str, range: LineRange) -> Lines {
        let skip = usize::try_from(range.first - 1).unwrap();
        let take = range.last.map_or(usize::MAX, |last| usize::try_from(last).unwrap() - skip);
        let lines: Vec<&str> = content.split_inclusive('\n').collect();
        let wanted = lines.iter().skip(skip).take(take);
        let all = if range.verbatim {
            wanted.copied().collect()
        } else {
            let line = |line: &&str| match line.strip_suffix('\n') {
                Some(line) => line.strip_suffix('\r').unwrap_or(line).to_owned(),
                None => (*line).to_owned(),
            };
            wanted.map(line).collect::<Vec<_>>().join("\n")
        };
        let text = all.chars().take(usize::try_from(range.max_chars).unwrap()).collect();
        let (chars, size) = (all.chars().count() as u64, content.len() as u64);
        Lines { text, chars, past_end: lines.len() <= skip, binary: false, size }
    }

    #[test]
    fn lines_of_a_range() {
        let text =
            |content: &str, first, last| read(content.as_bytes(), LineRange { first, last, ..ALL }, 3).text;
        assert_eq!(text("a\nb\r\nc\n", 1, None), "a\nb\nc");
        assert_eq!(text("a\nb\r\nc\n", 2, Some(2)), "b");
        assert_eq!(text("a\nb\r\nc", 2, Some(9)), "b\nc");
        assert_eq!(text("a\n\n\nb\n\n", 2, None), "\n\nb\n");
        assert_eq!(text("a\rb\r\r\nc\r", 1, None), "a\rb\r\nc\r");
        let whole = LineRange { verbatim: true, ..ALL };
        assert_eq!(read(b"\xef\xbb\xbfa\r\n", whole, 1).text, "\u{feff}a\r\n");
        assert!(read(b"", ALL, 1).past_end);
        assert!(!read(b"\n", ALL, 1).past_end);
        assert!(read(b"\n", LineRange { first: 2, ..ALL }, 1).past_end);
    }

    #[test]
    fn only_what_is_needed_is_read() {
        let mut reader = LineReader::new(LineRange { last: Some(2), ..ALL }).unwrap();
        assert!(reader.feed(b"one\n"));
        assert!(!reader.feed(b"two\n\xff"), "what follows does not count");
        assert!(!reader.feed(b"\xff"));
        let lines = reader.finish(100);
        assert_eq!((lines.text.as_str(), lines.chars, lines.binary, lines.size), ("one\ntwo", 7, false, 100));
    }

    #[test]
    fn a_long_line_takes_no_memory() {
        let mut reader = LineReader::new(LineRange { max_chars: 5, ..ALL }).unwrap();
        let piece = "\u{e9}".repeat(1 << 20);
        for _ in 0..100 {
            assert!(reader.feed(piece.as_bytes()));
        }
        assert!(reader.partial.capacity() < 16 && reader.found.text.capacity() < 100);
        let lines = reader.finish(0);
        assert_eq!((lines.text.as_str(), lines.chars), ("\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}", 100 << 20));
    }

    #[test]
    fn binary_files() {
        let binary = |content: &[u8], range| (1..5).all(|piece| read(content, range, piece).binary);
        // A log that a program has truncated while another one writes to it, for example.
        assert!(!binary(b"a\0b", ALL));
        assert_eq!(read(b"a\0b", ALL, 1).text, "a\0b");
        assert!(binary(b"\xff\nb", LineRange { first: 2, ..ALL }));
        assert!(binary("\u{20ac}".as_bytes().split_last().unwrap().1, ALL), "it ends within a character");
        assert!(!binary(b"a\n\xff", LineRange { last: Some(1), ..ALL }));
        assert!(binary(b"\xe2\x82\n", ALL));
        let lines = read(b"abc\n\xff", ALL, 99);
        assert_eq!((lines.text.as_str(), lines.chars, lines.size), ("", 0, 5));
    }

    #[test]
    fn ranges_that_are_not_valid() {
        let new = |range| LineReader::new(range).map(drop);
        assert_eq!(new(LineRange { first: 0, ..ALL }), Err(InvalidRange::Zero));
        assert_eq!(new(LineRange { first: 3, last: Some(2), ..ALL }), Err(InvalidRange::Reversed));
        assert_eq!(new(LineRange { max_chars: MAX_CHARS + 1, ..ALL }), Err(InvalidRange::TooManyChars));
        assert_eq!(new(LineRange { first: u64::MAX, last: Some(u64::MAX), ..ALL }), Ok(()));
    }

    proptest! {
        #[test]
        fn as_the_standard_library_splits(
            content in "[a\u{e9}\u{1f600}\r\n]{0,30}",
            piece in 1_usize..9,
            first in 1_u64..6,
            more in proptest::option::of(0_u64..4),
            max_chars in 0_u64..20,
            verbatim: bool,
        ) {
            let range = LineRange { first, last: more.map(|more| first + more), max_chars, verbatim };
            prop_assert_eq!(read(content.as_bytes(), range, piece), expected(&content, range));
        }

        #[test]
        fn binary_whatever_the_pieces(content in proptest::collection::vec(any::<u8>(), 0..12), piece in 1_usize..9) {
            let binary = std::str::from_utf8(&content).is_err();
            prop_assert_eq!(read(&content, ALL, piece).binary, binary);
        }
    }
}
