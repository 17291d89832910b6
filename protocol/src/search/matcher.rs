//! Finds the matching lines of a file.

use memchr::{memchr, memchr_iter, memrchr};
use regex_lite::{Error, Regex, RegexBuilder};

use super::literal::Literal;
use super::{LARGEST_REGEX, STEP, Search};

/// A search, ready to be done.
#[derive(Debug)]
pub struct Matcher {
    regex: Regex,
    /// A text that every matching line has.
    literal: Option<Literal>,
    include: Option<(Regex, bool)>,
    binary_within: usize,
    max_line_chars: usize,
    max_line_bytes: usize,
    /// The length of the pattern.
    length: usize,
}

/// A matching line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number.
    pub number: u64,
    /// Its text, as in [`Match`](super::Match).
    pub text: String,
}

/// How far a file was searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor {
    /// In bytes.
    pub offset: usize,
    /// How many lines come before.
    lines: u64,
}

impl Matcher {
    /// Compiles the patterns of a search.
    ///
    /// # Errors
    /// What is wrong with a pattern.
    pub fn new(search: &Search) -> Result<Self, Error> {
        let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        let mut builder = RegexBuilder::new(&search.pattern);
        let regex = builder.case_insensitive(search.ignore_case).size_limit(LARGEST_REGEX).build()?;
        let include =
            search.include.as_ref().map(|include| Ok((Regex::new(&include.regex)?, include.by_name)));
        Ok(Matcher {
            regex,
            literal: Literal::required(&search.pattern, search.ignore_case),
            include: include.transpose()?,
            binary_within: size(search.binary_within),
            max_line_chars: size(search.max_line_chars),
            max_line_bytes: size(search.max_line_bytes.into()),
            length: search.pattern.len(),
        })
    }

    /// Returns whether a file is to be searched, by its path below the start of the search, or by its name if it is the
    /// start itself.
    pub fn includes(&self, path: &str) -> bool {
        self.include.as_ref().is_none_or(|(regex, by_name)| {
            regex.is_match(if *by_name { path.rsplit('/').next().unwrap_or_default() } else { path })
        })
    }

    /// Returns whether a file is binary.
    pub fn is_binary(&self, bytes: &[u8]) -> bool {
        memchr(0, &bytes[..bytes.len().min(self.binary_within)]).is_some()
    }

    /// Returns the product of the lengths of a text and the pattern.
    pub fn work(&self, bytes: usize) -> usize {
        bytes.saturating_mul(self.length + 1)
    }

    /// Searches a file for one [`STEP`]: adds the next matching lines, at most `most` in total. The file is done when the
    /// cursor is at its end.
    pub fn step(&self, bytes: &[u8], at: &mut Cursor, most: usize, lines: &mut Vec<Line>) {
        let mut work = 0;
        while at.offset < bytes.len() && lines.len() < most && work < STEP {
            if !self.skip(bytes, at) {
                return;
            }
            let rest = &bytes[at.offset..];
            let whole = &rest[..memchr(b'\n', rest).map_or(rest.len(), |end| end + 1)];
            at.offset += whole.len();
            at.lines += 1;
            work += self.work(whole.len() + 1);
            if whole.len() > self.max_line_chars
                && String::from_utf8_lossy(whole).chars().count() > self.max_line_chars
            {
                continue;
            }
            let end =
                whole.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
            let text = String::from_utf8_lossy(&whole[..end]);
            let is_match = self.literal.as_ref().is_some_and(Literal::is_whole) || self.regex.is_match(&text);
            if is_match {
                let text = text[..text.floor_char_boundary(self.max_line_bytes)].to_owned();
                lines.push(Line { number: at.lines, text });
            }
        }
    }

    /// Goes to the next line that may match. Returns false at the end of the file.
    fn skip(&self, bytes: &[u8], at: &mut Cursor) -> bool {
        let Some(literal) = &self.literal else { return true };
        let rest = &bytes[at.offset..];
        let Some(hit) = literal.find(rest) else {
            at.offset = bytes.len();
            return false;
        };
        let start = memrchr(b'\n', &rest[..hit]).map_or(0, |end| end + 1);
        at.lines += memchr_iter(b'\n', &rest[..start]).count() as u64;
        at.offset += start;
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::super::{Include, Search};
    use super::*;

    /// A search without limits.
    pub(crate) fn search(pattern: &str) -> Search {
        Search {
            pattern: pattern.to_owned(),
            ignore_case: false,
            include: None,
            skip_ignored: false,
            max_file_size: u64::MAX,
            binary_within: u64::MAX,
            max_line_chars: u64::MAX,
            max_line_bytes: u32::MAX,
            max_matches: 100,
            max_skipped: 100,
            max_directories: u64::MAX,
            max_entries: u64::MAX,
            timeout_ms: 60_000,
        }
    }

    fn lines(search: &Search, bytes: &[u8]) -> Vec<(u64, String)> {
        let matcher = Matcher::new(search).unwrap();
        let (mut at, mut lines) = (Cursor::default(), Vec::new());
        while at.offset < bytes.len() && lines.len() < 100 {
            matcher.step(bytes, &mut at, 100, &mut lines);
        }
        lines.into_iter().map(|line| (line.number, line.text)).collect()
    }

    #[test]
    fn lines_are_matched_without_their_ends() {
        let found = |pattern: &str, text: &[u8]| lines(&search(pattern), text);
        assert_eq!(found("^b$", b"a\r\nb\r\nc"), [(2, "b".to_owned())]);
        assert_eq!(found("b", b"a\r\nb\r\nb"), [(2, "b".to_owned()), (3, "b".to_owned())]);
        assert_eq!(found("^$", b"a\n\nb\n"), [(2, String::new())], "the last line end begins no line");
        assert_eq!(found("^$", b""), []);
        assert_eq!(found("b", b"\xffb"), [(1, "\u{fffd}b".to_owned())]);
        assert_eq!(found("\u{fffd}", b"\xff"), [(1, "\u{fffd}".to_owned())]);
        assert_eq!(found("a\nb", b"a\nb"), []);
        assert_eq!(found("a\\n?b", b"a\nab"), [(2, "ab".to_owned())]);
        assert_eq!(found("x", &b"x\n".repeat(1000)).len(), 100);
    }

    #[test]
    fn limits_of_lines() {
        let text = "é".repeat(2000).replace('é', "xé");
        let cut = Search { max_line_bytes: 2000, ..search("x") };
        assert_eq!(lines(&cut, text.as_bytes())[0].1.len(), 1999);
        let short = Search { max_line_chars: 4, ..search("x") };
        assert_eq!(lines(&short, "xéé\nxééé\nx".as_bytes()).len(), 2);
        let matcher = Matcher::new(&Search { binary_within: 2, ..search("x") }).unwrap();
        assert_eq!([&b"a\0"[..], b"aa\0", b""].map(|text| matcher.is_binary(text)), [true, false, false]);
    }

    #[test]
    fn files_by_path_and_name() {
        let include = |by_name| Some(Include { regex: "^b".into(), by_name });
        let by_name = Matcher::new(&Search { include: include(true), ..search("x") }).unwrap();
        assert!(by_name.includes("a/b") && by_name.includes("b") && !by_name.includes("b/a"));
        let by_path = Matcher::new(&Search { include: include(false), ..search("x") }).unwrap();
        assert!(!by_path.includes("a/b") && by_path.includes("b/a"));
    }

    #[test]
    fn patterns_are_checked() {
        for pattern in ["(", "[z-a]", "(?=a)", "a{2000}{2000}"] {
            assert!(Matcher::new(&search(pattern)).is_err(), "{pattern}");
        }
    }

    /// A pattern of few kinds of parts, so that it often matches.
    fn pattern() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            "[abA]{1,3}",
            "[ab]{1,2}[?*+]",
            "[ab]{1,2}\\{[01],?2?\\}",
            "\\([abk]{1,2}(\\|[ab]{0,2})?\\)[?*]?",
            Just("[ab]".to_owned()),
            Just("[^]a]".to_owned()),
            Just("[]b\\]]".to_owned()),
            Just("\\d".to_owned()),
            Just("\\.".to_owned()),
            Just("\\\\".to_owned()),
            Just("\\x61".to_owned()),
            Just("\\u{62}".to_owned()),
            Just("\\b".to_owned()),
            Just("\\<".to_owned()),
            Just("(?i)".to_owned()),
            Just("(?:a|b)".to_owned()),
            Just(".".to_owned()),
            Just("|".to_owned()),
            Just("^".to_owned()),
            Just("$".to_owned()),
            Just("é".to_owned()),
            Just("\u{fffd}".to_owned()),
            Just("K".to_owned()),
        ];
        proptest::collection::vec(part, 1..5).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

        /// Skipping lines by a literal never changes the result.
        #[test]
        fn every_line_as_by_the_regex_alone(
            pattern in pattern(),
            text in proptest::collection::vec(prop_oneof![
                Just(&b"a"[..]), Just(&b"b"[..]), Just(&b"A"[..]), Just(&b"B"[..]), Just(&b"\n"[..]), Just(&b"\r\n"[..]),
                Just(&b"."[..]), Just(&b"1"[..]), Just(&b"\\"[..]), Just("é".as_bytes()), Just(&b"\xff"[..]),
                Just(&b"\xc3"[..]), Just("\u{212a}".as_bytes()), Just(&b"k"[..]), Just("\u{fffd}".as_bytes()),
            ], 0..30).prop_map(|parts| parts.concat()),
            ignore_case in any::<bool>(),
        ) {
            let search = Search { ignore_case, ..search(&pattern) };
            let Ok(mut matcher) = Matcher::new(&search) else { return Ok(()) };
            let found = lines(&search, &text);
            matcher.literal = None;
            let (mut at, mut slowly) = (Cursor::default(), Vec::new());
            matcher.step(&text, &mut at, 100, &mut slowly);
            let slowly: Vec<_> = slowly.into_iter().map(|line| (line.number, line.text)).collect();
            prop_assert_eq!(found, slowly, "{}", pattern);
        }
    }
}
