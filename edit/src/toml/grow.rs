//! Adds new values to a text.

use std::ops::Range;

use serde_json::Value;

use super::change::Change;
use super::layout::{Home, Section};
use super::render;
use crate::edit::Step;
use crate::plan::New;
use crate::source::mark;
use crate::tree::Id;

impl Change<'_> {
    /// Adds properties to a table.
    pub(super) fn members<'m>(&mut self, id: Id, members: impl Iterator<Item = (&'m str, &'m New)>) {
        match self.layout.homes[id] {
            Home::Line(_) | Home::Item(_) => {
                let texts = members.filter_map(|(name, new)| entry("", name, new)).collect::<Vec<_>>();
                self.come.entry(id).or_default().extend(texts);
            }
            Home::Dotted(owner) => {
                let keys = self.keys(id);
                let prefix = render::dotted(&keys[self.keys(owner).len()..]) + ".";
                let texts = members.filter_map(|(name, new)| entry(&prefix, name, new)).collect::<Vec<_>>();
                if self.layout.lists.contains_key(&owner) {
                    self.come.entry(owner).or_default().extend(texts);
                } else {
                    let place = self.last_line(id).unwrap_or_default();
                    self.lines_after(place, &texts);
                }
            }
            Home::Section | Home::Implied => {
                let keys = self.keys(id);
                let mut rendered = render::members(members, &mut keys.clone(), self.source.newline);
                if let Some(section) = self.layout.sections.get(&id) {
                    self.add_lines(section, &rendered.lines);
                } else if !rendered.lines.is_empty() {
                    let own = render::section("[", &keys, "]", &rendered.lines, self.source.newline);
                    rendered.sections.insert(0, own);
                }
                self.add_sections(id, &rendered.sections);
            }
        }
    }

    fn keys(&self, id: Id) -> Vec<String> {
        self.tree.keys(id).into_iter().map(str::to_owned).collect()
    }

    /// Adds elements to an array.
    pub(super) fn elements(&mut self, id: Id, values: &[&Value]) {
        if self.layout.lists.contains_key(&id) {
            let texts = values.iter().map(|value| render::inline(value));
            self.come.entry(id).or_default().extend(texts);
            return;
        }
        let keys = self.keys(id);
        debug_assert!(values.iter().all(|value| value.is_object()), "an array of tables holds tables");
        let objects = values.iter().filter_map(|value| value.as_object());
        let texts: Vec<_> = objects
            .map(|object| render::section("[[", &keys, "]]", &render::lines(object), self.source.newline))
            .collect();
        self.add_sections(id, &texts);
    }

    /// Returns the end of the last line of a table made by dotted keys.
    fn last_line(&self, id: Id) -> Option<usize> {
        let children = self.tree.children(id);
        let ends = children.into_iter().filter_map(|child| match self.layout.homes[child] {
            Home::Line(_) => Some(self.tree.node(child).range.end),
            Home::Dotted(_) => self.last_line(child),
            _ => None,
        });
        ends.max()
    }

    /// Adds lines to a section.
    fn add_lines(&mut self, section: &Section, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        if let Some(last) = section.last.as_ref().or(section.header.as_ref()) {
            self.lines_after(last.end, lines);
            return;
        }
        // The root has no line yet: insert before the first header, but below a comment that heads the file.
        let newline = self.source.newline;
        let end = self.source.text.trim_end().len();
        if self.layout.sections.len() == 1 && end > mark(&self.source.text) {
            // The text consists of comments: sections go right after them, and lines before those.
            let end = self.source.line_end(end);
            self.out.insert(end, newline.repeat(2) + &lines.join(newline));
            return;
        }
        let place = self.heading();
        let mut text = lines.join(newline) + newline;
        if !self.source.text[place..].trim().is_empty() {
            text += newline;
        }
        self.out.insert(place, text);
        self.heading = Some(place);
    }

    fn lines_after(&mut self, end: usize, lines: &[String]) {
        let place = self.source.line_end(end);
        let indent = self.source.indent(end);
        // The last line of a multi-line value has its own indentation.
        let indent = if self.source.text[self.source.line_start(end)..].trim_start().starts_with([']', '}']) {
            ""
        } else {
            indent
        };
        let texts = lines.iter().map(|line| format!("{}{indent}{line}", self.source.newline));
        let text: String = texts.collect();
        self.out.insert(place, text);
    }

    /// Returns the position after the comment lines and the blank line that start the text, or its start.
    fn heading(&self) -> usize {
        let start = mark(&self.source.text);
        let mut place = start;
        while self.source.text[self.source.blanks_after(place)..].starts_with('#') {
            place = self.source.after_newline(self.source.line_end(place));
        }
        let blank = self.source.after_newline(self.source.blanks_after(place));
        if place > start && blank > place { blank } else { start }
    }

    /// Adds sections after the last one of a table or array. For the root, adds them at the end of the text.
    fn add_sections(&mut self, id: Id, sections: &[String]) {
        if sections.is_empty() {
            return;
        }
        let text = &self.source.text;
        let newline = self.source.newline;
        let between = newline.repeat(2);
        let mark = mark(text);
        if text[mark..].trim().is_empty() {
            self.out.insert(mark, sections.join(&between) + newline);
            return;
        }
        let before = self.last_section(id).filter(|_| id > 0).or_else(|| self.before_last_table());
        let place = match before {
            Some(section) => self.section_end(section),
            None => self.source.line_end(text.trim_end().len()),
        };
        let sample = self.beside(id, place);
        let sections: Vec<String> = sections.iter().map(|section| self.indented(section, sample)).collect();
        for section in sections {
            self.out.insert(place, format!("{between}{section}"));
        }
    }

    /// Returns the section directly above those of the table that stays last, if any.
    fn before_last_table(&self) -> Option<&Section> {
        let table = self.tree.find(&[Step::from(self.layout.last.as_deref()?)])?;
        let starts = self.all_sections(table);
        let first = starts.into_iter().map(|section| section.range().start).min()?;
        let before = self.layout.sections.values().filter(|section| {
            let range = section.range();
            range.end <= first && !range.is_empty()
        });
        before.max_by_key(|section| section.range().end)
    }

    /// Returns the sections of a table and of its subtables.
    fn all_sections(&self, id: Id) -> Vec<&Section> {
        let own = self.layout.sections.get(&id);
        let children = self.tree.children(id);
        let inner = children.into_iter().filter(|child| {
            matches!(self.layout.homes[*child], Home::Section | Home::Dotted(_) | Home::Implied)
        });
        own.into_iter().chain(inner.flat_map(|child| self.all_sections(child))).collect()
    }

    /// Returns the section nearest to a new entry of a table or array: the last one in it, or its own.
    fn beside(&self, id: Id, place: usize) -> Option<&Section> {
        let sections = &self.layout.sections;
        let direct = self.tree.children(id).into_iter().flat_map(|child| match sections.get(&child) {
            Some(section) => vec![section],
            None => self.tree.children(child).into_iter().filter_map(|inner| sections.get(&inner)).collect(),
        });
        let before = direct.filter(|section| section.range().end <= place);
        before.max_by_key(|section| section.range().end).or_else(|| sections.get(&id))
    }

    /// Indents a section like another one.
    fn indented(&self, text: &str, sample: Option<&Section>) -> String {
        let Some(sample) = sample else { return text.to_owned() };
        let indent =
            |range: &Option<Range<usize>>| range.as_ref().map_or("", |range| self.source.indent(range.start));
        let header = indent(&sample.header);
        let line = if sample.last.is_some() { indent(&sample.last) } else { header };
        let mut lines = text.split(self.source.newline);
        let first = format!("{header}{}", lines.next().unwrap_or_default());
        lines.fold(first, |text, next| text + self.source.newline + line + next)
    }

    /// Returns the last section in the text that belongs to a table or its subtables.
    fn last_section(&self, id: Id) -> Option<&Section> {
        let own = self.layout.sections.get(&id);
        let children = self.tree.children(id);
        let inner = children.into_iter().filter_map(|child| match self.layout.homes[child] {
            Home::Section | Home::Dotted(_) | Home::Implied => self.last_section(child),
            Home::Line(_) | Home::Item(_) => None,
        });
        own.into_iter().chain(inner).max_by_key(|section| section.range().end)
    }

    /// Returns the end of a section's last line and of the comment lines directly below it that do not belong to the
    /// next header.
    fn section_end(&self, section: &Section) -> usize {
        let end = self.source.line_end(section.range().end);
        let mut last = end;
        loop {
            let next = self.source.after_newline(last);
            let rest = self.source.text[next..].trim_start_matches([' ', '\t']);
            match rest.as_bytes().first() {
                Some(b'#') if next > last => last = self.source.line_end(next),
                Some(b'[') => return end,
                _ => return last,
            }
        }
    }
}

/// Renders `key = value` for a new property of a table that has no section. TOML cannot write null.
fn entry(prefix: &str, name: &str, new: &New) -> Option<String> {
    let value = new.to_value();
    (!value.is_null()).then(|| format!("{prefix}{} = {}", render::key(name), render::inline(&value)))
}
