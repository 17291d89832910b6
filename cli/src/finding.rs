//! Findings: broken rules and their locations in files.

use std::ops::Range;
use std::sync::Arc;

use koze_model::{Diagnostic, Level};

use crate::rules::Rule;
use crate::write::beneath::Stray;

/// A location in a file.
#[derive(Debug, Clone)]
pub struct Place {
    /// The file's name in messages: relative to the project if it is inside.
    pub file: String,
    /// The file's content.
    pub text: Arc<str>,
    /// The byte range in the text; `None` means the whole file.
    pub range: Option<Range<usize>>,
}

impl Place {
    /// Returns the location of a whole file.
    pub fn file(file: impl Into<String>) -> Self {
        Place { file: file.into(), text: Arc::from(""), range: None }
    }

    /// Returns the line and column of the start, counted in characters from 1.
    pub fn line_column(&self) -> Option<(usize, usize)> {
        self.line_column_at(self.range.as_ref()?.start)
    }

    /// Line and column after the last character, in characters, from 1.
    pub fn end(&self) -> Option<(usize, usize)> {
        self.line_column_at(self.range.as_ref()?.end)
    }

    fn line_column_at(&self, offset: usize) -> Option<(usize, usize)> {
        let before = self.text.get(..offset)?;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        // Editors do not count a byte order mark as a column.
        let column = before[line_start..].trim_start_matches('\u{feff}').chars().count();
        Some((before.matches('\n').count() + 1, column + 1))
    }
}

/// A broken rule and its location.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The rule: code, message, help.
    pub rule: Rule,
    /// The location; `None` if the finding belongs to no file.
    pub place: Option<Place>,
    /// Related locations, each with a label.
    pub also: Vec<(Place, String)>,
}

/// The findings of all stages so far.
#[derive(Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    strict: bool,
}

/// The error of a stage. The errors themselves are in the [`Findings`], and nothing may be written.
#[derive(Debug)]
pub struct Stop;

impl Findings {
    /// Creates an empty list. With `strict`, warnings stop the build like errors.
    pub fn new(strict: bool) -> Self {
        Findings { list: Vec::new(), strict }
    }

    /// Adds a finding at a location.
    pub fn add(&mut self, rule: impl Into<Rule>, place: Option<Place>) {
        self.push(Finding { rule: rule.into(), place, also: Vec::new() });
    }

    /// Adds a finding.
    pub fn push(&mut self, finding: Finding) {
        self.list.push(finding);
    }

    /// Adds a finding and stops.
    ///
    /// # Errors
    /// Always returns [`Stop`].
    pub fn fail<T>(&mut self, rule: impl Into<Rule>, place: Option<Place>) -> Result<T, Stop> {
        self.add(rule, place);
        Err(Stop)
    }

    /// Adds an error of the operating system and stops. The messages of `fs_err` name the file.
    ///
    /// # Errors
    /// Always returns [`Stop`].
    pub fn io<T>(&mut self, error: &std::io::Error) -> Result<T, Stop> {
        self.add_io(error);
        Err(Stop)
    }

    /// Adds an error of the operating system, or of a path that leads out of its package.
    pub fn add_io(&mut self, error: &std::io::Error) {
        let rule = match Stray::of(error) {
            Some(stray) => Rule::LeadsOut { message: stray.message(), remedy: stray.remedy() },
            None => Rule::Io { message: error.to_string(), kind: error.kind() },
        };
        self.add(rule, None);
    }

    /// Adds a diagnostic of the model, whose file indices refer to `files`.
    pub fn diagnostic(&mut self, diagnostic: Diagnostic, files: &[(String, Arc<str>)]) {
        let place = |spot: &koze_model::Spot| {
            let (file, text) = &files[spot.file];
            let range = spot.span.map(|span| span.byte_range());
            Place { file: file.clone(), text: text.clone(), range }
        };
        let also = diagnostic.also.iter().map(|(spot, label)| (place(spot), label.clone())).collect();
        let place = Some(place(&diagnostic.at));
        self.push(Finding { rule: diagnostic.rule.into(), place, also });
    }

    /// Returns the severity of a finding; strict mode turns warnings into errors.
    pub fn level(&self, finding: &Finding) -> Level {
        if self.strict { Level::Error } else { finding.rule.level() }
    }

    /// Ends a stage.
    ///
    /// # Errors
    /// Returns [`Stop`] if there are errors.
    pub fn checked(&self) -> Result<(), Stop> {
        if self.count(Level::Error) > 0 { Err(Stop) } else { Ok(()) }
    }

    /// Returns the number of findings of a level.
    pub fn count(&self, level: Level) -> usize {
        self.list.iter().filter(|finding| self.level(finding) == level).count()
    }

    /// Returns all findings in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.list.iter()
    }
}
