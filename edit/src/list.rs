//! Comma-separated entries between brackets: JSON's objects and arrays, TOML's inline ones.

use std::ops::Range;

use crate::source::{Source, Splices};
use crate::tree::Id;

/// The inside of a pair of brackets.
#[derive(Debug)]
pub(crate) struct List {
    /// The end of the opening bracket.
    pub(crate) open: usize,
    /// The start of the closing bracket.
    pub(crate) close: usize,
    pub(crate) items: Vec<Item>,
}

/// An entry, from its key or value to the end of its value.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) id: Id,
    pub(crate) start: usize,
    pub(crate) value: Range<usize>,
    pub(crate) comma: Option<usize>,
}

/// How new entries of a list are laid out.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Each entry is on its own line.
    pub(crate) lines: bool,
    /// The indentation of new entries.
    pub(crate) indent: String,
    /// A comma follows the last entry.
    pub(crate) trailing: bool,
}

/// The layout to use if a list gives no example.
#[derive(Debug)]
pub(crate) struct Habit<'a> {
    /// One level of indentation.
    pub(crate) unit: &'a str,
    pub(crate) trailing: bool,
    /// Whether an empty list is spread over lines when it gets entries.
    pub(crate) open: bool,
}

impl Item {
    fn end(&self) -> usize {
        self.value.end
    }

    /// The end of the entry and its comma.
    fn full_end(&self) -> usize {
        self.comma.map_or(self.end(), |comma| comma + 1)
    }

    /// Returns the parts of the entry between the comments that are inside it but outside its value: comments are never
    /// removed.
    fn pieces(&self, source: &Source, to: usize) -> Vec<Range<usize>> {
        let before = source.comments_in(&(self.start..self.value.start));
        let after = source.comments_in(&(self.end()..to));
        let mut pieces = Vec::with_capacity(1);
        let mut start = self.start;
        for comment in before.iter().chain(after) {
            pieces.push(trim(source, start..comment.range.start));
            start = comment.range.end;
        }
        pieces.push(trim(source, start..to));
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

fn trim(source: &Source, range: Range<usize>) -> Range<usize> {
    let text = &source.text[range.clone()];
    let start = range.end - text.trim_start().len();
    start..start + text.trim().len()
}

impl List {
    /// Returns one level of indentation, if the list shows it.
    pub(crate) fn unit<'s>(&self, source: &'s Source) -> Option<&'s str> {
        let first = self.items.first().filter(|first| source.first_on_line(first.start))?;
        let unit = source.indent(first.start).strip_prefix(source.indent(self.open - 1))?;
        (!unit.is_empty()).then_some(unit)
    }

    /// Returns whether a comma follows the last entry. A list on one line shows it only by having one.
    pub(crate) fn trailing(&self, source: &Source) -> Option<bool> {
        let last = self.items.last()?;
        (last.comma.is_some() || !source.one_line(&(self.open..self.close))).then_some(last.comma.is_some())
    }

    /// Returns the layout of new entries, which follows the last entry that `stays`, or else the last one.
    pub(crate) fn shape(&self, source: &Source, stays: impl Fn(&Item) -> bool, habit: &Habit) -> Shape {
        let last = self.items.iter().rposition(stays).or(self.items.len().checked_sub(1));
        let Some(last) = last else {
            let outer = source.indent(self.open - 1);
            let comments = source.comments_in(&(self.open..self.close));
            let comment = comments.iter().rev().find(|comment| source.first_on_line(comment.range.start));
            let indent = match comment {
                Some(comment) => source.indent(comment.range.start).to_owned(),
                None => format!("{outer}{}", habit.unit),
            };
            let lines = habit.open || comments.iter().any(|comment| comment.line);
            return Shape { lines, indent, trailing: lines && habit.trailing };
        };
        let item = &self.items[last];
        let gap = last.checked_sub(1).map_or(self.open, |before| self.items[before].full_end());
        Shape {
            lines: !source.one_line(&(gap..item.start)),
            indent: source.indent(item.start).to_owned(),
            trailing: self.items.last().is_some_and(|item| item.comma.is_some()),
        }
    }

    /// Removes the entries that are `gone`, and appends others.
    pub(crate) fn edit(
        &self,
        source: &Source,
        shape: &Shape,
        gone: impl Fn(Id) -> bool,
        added: &[String],
        out: &mut Splices,
    ) {
        if self.items.is_empty() {
            self.fill(source, shape, added, out);
            return;
        }
        match self.items.iter().rposition(|item| !gone(item.id)) {
            Some(last) => self.edit_after(last, source, shape, gone, added, out),
            None if added.is_empty() => self.empty(source, out),
            None => self.swap(source, shape, added, out),
        }
    }

    /// Handles the usual case: entry `last` is kept, and those after it are removed.
    fn edit_after(
        &self,
        last: usize,
        source: &Source,
        shape: &Shape,
        gone: impl Fn(Id) -> bool,
        added: &[String],
        out: &mut Splices,
    ) {
        let anchor = &self.items[last];
        let mut pieces = Vec::new();
        for (place, item) in self.items.iter().enumerate() {
            if gone(item.id) {
                pieces.extend(item.pieces(source, item.full_end()));
            } else if place == last
                && let Some(comma) = item.comma.filter(|_| added.is_empty() && !shape.trailing)
            {
                if source.first_on_line(comma) {
                    pieces.push(comma..comma + 1);
                } else {
                    out.remove(comma..comma + 1);
                }
            }
        }
        self.cut(source, pieces, out);
        if added.is_empty() {
            return;
        }
        if anchor.comma.is_none() {
            out.insert(anchor.end(), ",");
        }
        let tail = source.tail(anchor.full_end());
        let lines = shape.lines || tail.line_comment;
        let place = tail.line_end.filter(|_| lines).unwrap_or(tail.end);
        let between = separator(source, shape, lines);
        let mut text = String::new();
        for (count, entry) in added.iter().enumerate() {
            text += if count > 0 { "," } else { "" };
            text += &between;
            text += entry;
        }
        text += if shape.trailing { "," } else { "" };
        out.insert(place, text);
    }

    /// Fills a list without entries.
    fn fill(&self, source: &Source, shape: &Shape, added: &[String], out: &mut Splices) {
        if added.is_empty() {
            return;
        }
        let comment = source.comments_in(&(self.open..self.close)).last();
        let start = comment.map_or(self.open, |comment| comment.range.end);
        if !shape.lines {
            // An object on one line has spaces inside its braces, an array does not.
            let pad = if source.text[..self.open].ends_with('{') || comment.is_some() { " " } else { "" };
            out.replace(start..self.close, format!("{pad}{}{pad}", added.join(", ")));
            return;
        }
        let between = separator(source, shape, true);
        let mut text = format!("{between}{}", added.join(&format!(",{between}")));
        text += if shape.trailing { "," } else { "" };
        let gap = start..self.close;
        if comment.is_some() && !source.one_line(&gap) {
            out.insert(start, text);
        } else {
            text += source.newline;
            text += source.indent(self.open - 1);
            out.replace(gap, text);
        }
    }

    /// Removes all entries.
    fn empty(&self, source: &Source, out: &mut Splices) {
        let commented = {
            let mut start = self.open;
            let mut gaps: Vec<_> = Vec::with_capacity(self.items.len() + 1);
            for item in &self.items {
                gaps.push(start..item.value.start);
                start = item.value.end;
            }
            gaps.push(start..self.close);
            gaps.iter().any(|gap| !source.comments_in(gap).is_empty())
        };
        if commented {
            let pieces = self.items.iter().flat_map(|item| item.pieces(source, item.full_end())).collect();
            self.cut(source, pieces, out);
        } else {
            out.remove(self.open..self.close);
        }
    }

    /// Replaces all entries by new ones, at the position of the first.
    fn swap(&self, source: &Source, shape: &Shape, added: &[String], out: &mut Splices) {
        let (first, others) = (&self.items[0], &self.items[1..]);
        let between = separator(source, shape, shape.lines);
        let mut text = added.join(&format!(",{between}"));
        for piece in first.pieces(source, first.end()) {
            out.replace(piece, std::mem::take(&mut text));
        }
        if let Some(comma) = first.comma.filter(|_| !shape.trailing) {
            out.remove(comma..comma + 1);
        }
        let pieces = others.iter().flat_map(|item| item.pieces(source, item.full_end())).collect();
        self.cut(source, pieces, out);
    }

    /// Removes parts of the text, which must be in order, and the white space that they would leave behind.
    fn cut(&self, source: &Source, pieces: Vec<Range<usize>>, out: &mut Splices) {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for piece in pieces {
            match runs.last_mut() {
                Some(run) if source.text[run.end..piece.start].trim().is_empty() => {
                    run.end = piece.end;
                }
                _ => runs.push(piece),
            }
        }
        for run in runs {
            out.remove(self.with_blanks(source, run));
        }
    }

    fn with_blanks(&self, source: &Source, run: Range<usize>) -> Range<usize> {
        let (before, after) = (source.blanks_before(run.start), source.blanks_after(run.end));
        match (source.newline_before(before), source.newline_at(after)) {
            // Whole lines.
            (Some(line_end), true) => line_end..after,
            // The closing bracket moves up, unless a line comment there would swallow it.
            (Some(line_end), false) if after == self.close && !source.line_comment_before(line_end) => {
                line_end..run.end
            }
            (Some(_), false) if after == self.close => before..run.end,
            // The rest of the line stays, at the indentation of the removed part.
            (Some(_), false) => run.start..after,
            (None, false) if before == self.open => run.start..after,
            (None, _) => before..run.end,
        }
    }
}

fn separator(source: &Source, shape: &Shape, lines: bool) -> String {
    if lines { format!("{}{}", source.newline, shape.indent) } else { " ".to_owned() }
}
