//! A text, its lines and comments, and the splices that change it.

use std::ops::Range;

/// A document's text.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) text: String,
    /// The start of each line; the first one starts after a byte order mark.
    starts: Vec<usize>,
    /// The comments, in order.
    comments: Vec<Comment>,
    /// The line ending of most lines.
    pub(crate) newline: &'static str,
}

/// A comment.
#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) range: Range<usize>,
    /// Whether it extends to the end of its line, so that what follows must stay on another line.
    pub(crate) line: bool,
}

/// The rest of a line after a value: white space and comments.
pub(crate) struct Tail {
    /// The end of the last comment, or of the value.
    pub(crate) end: usize,
    /// The end of the line, if nothing else follows on it.
    pub(crate) line_end: Option<usize>,
    /// Whether the last comment extends to the end of its line.
    pub(crate) line_comment: bool,
}

/// Returns the length of the byte order mark at the start of `text`.
pub(crate) fn mark(text: &str) -> usize {
    if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

impl Source {
    pub(crate) fn new(text: String, mut comments: Vec<Comment>) -> Self {
        comments.sort_by_key(|comment| comment.range.start);
        let mut starts = vec![mark(&text)];
        let mut counts = [0_usize; 3];
        let bytes = text.as_bytes();
        for (place, byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' => counts[usize::from(place > 0 && bytes[place - 1] == b'\r')] += 1,
                b'\r' if bytes.get(place + 1) != Some(&b'\n') => counts[2] += 1,
                _ => continue,
            }
            starts.push(place + 1);
        }
        let newline = match counts {
            [lf, crlf, cr] if crlf > lf && crlf >= cr => "\r\n",
            [lf, _, cr] if cr > lf => "\r",
            _ => "\n",
        };
        Self { text, starts, comments, newline }
    }

    fn line(&self, place: usize) -> usize {
        self.starts.partition_point(|start| *start <= place).saturating_sub(1)
    }

    pub(crate) fn line_start(&self, place: usize) -> usize {
        self.starts[self.line(place)]
    }

    /// Returns the end of the line, without its line ending.
    pub(crate) fn line_end(&self, place: usize) -> usize {
        match self.starts.get(self.line(place) + 1) {
            Some(next) => self.newline_before(*next).unwrap_or(*next),
            None => self.text.len(),
        }
    }

    pub(crate) fn one_line(&self, range: &Range<usize>) -> bool {
        self.line(range.start) == self.line(range.end)
    }

    /// Returns the indentation of the line.
    pub(crate) fn indent(&self, place: usize) -> &str {
        let start = self.line_start(place);
        &self.text[start..self.blanks_after(start)]
    }

    /// Returns the start of the spaces and tabs that end at `place`.
    pub(crate) fn blanks_before(&self, place: usize) -> usize {
        self.text[..place].trim_end_matches([' ', '\t']).len()
    }

    /// Returns the end of the spaces and tabs that start at `place`.
    pub(crate) fn blanks_after(&self, place: usize) -> usize {
        self.text.len() - self.text[place..].trim_start_matches([' ', '\t']).len()
    }

    /// Returns the start of the line ending that ends at `place`.
    pub(crate) fn newline_before(&self, place: usize) -> Option<usize> {
        let before = &self.text[..place];
        ["\r\n", "\n", "\r"].into_iter().find_map(|newline| before.strip_suffix(newline)).map(str::len)
    }

    pub(crate) fn newline_at(&self, place: usize) -> bool {
        self.text[place..].starts_with(['\r', '\n'])
    }

    /// Returns the end of the line ending that starts at `place`, if there is one.
    pub(crate) fn after_newline(&self, place: usize) -> usize {
        let rest = &self.text[place..];
        let newline = ["\r\n", "\n", "\r"].into_iter().find(|newline| rest.starts_with(newline));
        place + newline.map_or(0, str::len)
    }

    /// Returns whether only white space precedes `place` on its line.
    pub(crate) fn first_on_line(&self, place: usize) -> bool {
        self.newline_before(self.blanks_before(place)).is_some()
    }

    /// Returns the comments that are completely inside `range`.
    pub(crate) fn comments_in(&self, range: &Range<usize>) -> &[Comment] {
        let from = self.comments.partition_point(|comment| comment.range.start < range.start);
        let to = self.comments.partition_point(|comment| comment.range.end <= range.end);
        &self.comments[from..to.max(from)]
    }

    pub(crate) fn comment_at(&self, start: usize) -> Option<&Comment> {
        let found = self.comments.binary_search_by_key(&start, |comment| comment.range.start);
        found.ok().map(|found| &self.comments[found])
    }

    /// Returns whether a line comment ends at `place`.
    pub(crate) fn line_comment_before(&self, place: usize) -> bool {
        let found = self.comments.binary_search_by_key(&place, |comment| comment.range.end);
        found.is_ok_and(|found| self.comments[found].line)
    }

    /// Returns what follows on the line of a value that ends at `end`.
    pub(crate) fn tail(&self, mut end: usize) -> Tail {
        let mut line_comment = false;
        loop {
            let next = self.blanks_after(end);
            let Some(comment) = self.comment_at(next) else {
                let at_end = next == self.text.len() || self.newline_at(next);
                return Tail { end, line_end: at_end.then_some(next), line_comment };
            };
            (end, line_comment) = (comment.range.end, comment.line);
        }
    }
}

/// Changes to a text, in any order.
#[derive(Debug, Default)]
pub(crate) struct Splices(Vec<(Range<usize>, String)>);

impl Splices {
    /// Inserts `text` at `place`. Several insertions at one place keep their order.
    pub(crate) fn insert(&mut self, place: usize, text: impl Into<String>) {
        self.replace(place..place, text);
    }

    /// Removes `range`, which may overlap other removals.
    pub(crate) fn remove(&mut self, range: Range<usize>) {
        self.replace(range, String::new());
    }

    pub(crate) fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.0.push((range, text.into()));
    }

    /// Returns whether a text is inserted after the start of `range`, or at its end.
    pub(crate) fn inserts_in(&self, range: Range<usize>) -> bool {
        self.0.iter().any(|(at, new)| !new.is_empty() && range.start < at.start && at.end <= range.end)
    }

    /// Applies the changes.
    pub(crate) fn apply(mut self, text: &str) -> String {
        // Insertions come before a removal that starts at the same place.
        self.0.sort_by_key(|(range, _)| (range.start, !range.is_empty()));
        let mut result =
            String::with_capacity(text.len() + self.0.iter().map(|(_, new)| new.len()).sum::<usize>());
        let mut copied = 0;
        for (range, new) in &self.0 {
            if range.start > copied {
                result.push_str(&text[copied..range.start]);
            }
            result.push_str(new);
            copied = copied.max(range.end);
        }
        result.push_str(&text[copied..]);
        result
    }
}
