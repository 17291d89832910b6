//! Removes and replaces values in a text.

use std::ops::Range;

use serde_json::Value;

use super::change::Change;
use super::layout::Home;
use super::render;
use crate::tree::{Id, Kind};

impl Change<'_> {
    /// Removes a value with all its parts.
    pub(super) fn remove(&mut self, id: Id) {
        match self.layout.homes[id] {
            Home::Item(list) => {
                self.gone.entry(list).or_default().insert(id);
            }
            Home::Line(start) => {
                let end = self.tree.node(id).range.end;
                self.lines.push(start..end);
            }
            Home::Section => {
                self.sections.push(self.layout.sections[&id].range());
                self.remove_inner_sections(id);
            }
            Home::Dotted(_) | Home::Implied => {
                for child in self.tree.children(id) {
                    self.remove(child);
                }
            }
        }
    }

    /// Removes the sections inside a table. Its lines are removed elsewhere.
    fn remove_inner_sections(&mut self, id: Id) {
        for child in self.tree.children(id) {
            match self.layout.homes[child] {
                Home::Section => self.remove(child),
                Home::Dotted(_) | Home::Implied => self.remove_inner_sections(child),
                Home::Line(_) | Home::Item(_) => {}
            }
        }
    }

    /// Replaces a value in place. Returns false if its place cannot hold the new value.
    pub(super) fn replace(&mut self, id: Id, value: &Value) -> bool {
        debug_assert!(!value.is_null(), "TOML has no null");
        let home = self.layout.homes[id];
        match (home, value) {
            (_, Value::Null) => true,
            (Home::Line(_) | Home::Item(_), _) => {
                self.out.replace(self.tree.node(id).range.clone(), render::inline(value));
                true
            }
            (Home::Section, Value::Object(object)) => {
                let Some(header) = &self.layout.sections[&id].header else {
                    debug_assert!(false, "the root of a TOML document cannot be set");
                    return true;
                };
                let mut text = self.source.text[header.clone()].to_owned();
                for line in render::lines(object) {
                    text += self.source.newline;
                    text += &line;
                }
                self.out.replace(self.layout.sections[&id].range(), text);
                self.remove_inner_sections(id);
                true
            }
            (Home::Section, _) => {
                let element = self
                    .tree
                    .node(id)
                    .parent
                    .is_some_and(|parent| matches!(self.tree.node(parent).kind, Kind::Array(_)));
                debug_assert!(!element, "an element of an array of tables must be a table");
                element
            }
            (Home::Dotted(_) | Home::Implied, _) => false,
        }
    }

    /// Cuts out the removed parts. Neighbors are joined, so that nothing is left between them.
    pub(super) fn cut(&mut self) {
        let (lines, sections) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.sections));
        for range in self.runs(lines) {
            self.remove_line(range);
        }
        for range in self.runs(sections) {
            self.remove_section(range);
        }
    }

    /// Joins ranges that are separated only by white space.
    fn runs(&self, mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
        ranges.sort_by_key(|range| range.start);
        let mut runs: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            match runs.last_mut() {
                Some(run) if self.source.text[run.end..range.start].trim().is_empty() => {
                    run.end = range.end;
                }
                _ => runs.push(range),
            }
        }
        runs
    }

    /// Removes a key with its value, and its line unless the line has a comment. On the first line of the text, the
    /// line ending after it is removed, unless something is inserted there.
    fn remove_line(&mut self, range: Range<usize>) {
        let after = self.source.blanks_after(range.end);
        if self.source.text[after..].starts_with('#') {
            self.out.remove(range.start..after);
        } else if let Some(before) = self.source.newline_before(self.source.line_start(range.start)) {
            self.out.remove(before..after);
        } else {
            let end = if self.out.inserts_in(range.start..after) {
                after
            } else {
                self.source.after_newline(after)
            };
            self.out.remove(range.start..end);
        }
    }

    /// Removes a section, and one blank line before it.
    fn remove_section(&mut self, range: Range<usize>) {
        let after = self.source.blanks_after(range.end);
        if self.source.text[after..].starts_with('#') {
            self.out.remove(range.start..after);
            return;
        }
        let start = self.source.line_start(range.start);
        // Text inserted in the section's place gets its own line.
        let before = self.source.newline_before(start).filter(|_| self.heading != Some(start));
        let Some(before) = before else {
            if self.out.inserts_in(start..after) {
                self.out.remove(range.start..after);
                return;
            }
            let mut end = self.source.after_newline(after);
            let blank = self.source.after_newline(self.source.blanks_after(end));
            if !self.source.text[blank..].trim().is_empty() {
                end = blank.max(end);
            }
            self.out.remove(range.start..end);
            return;
        };
        let blank = self.source.newline_before(self.source.blanks_before(before));
        self.out.remove(blank.unwrap_or(before)..after);
    }
}
