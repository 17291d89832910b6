//! What was found wrong, and where: rules with places in files.

use std::ops::Range;
use std::sync::Arc;

use koze_model::{Diagnostic, Level};

use crate::rules::Rule;

/// A place in a file.
#[derive(Debug, Clone)]
pub struct Place {
    /// The file as messages name it: relative to the project where it lies in it.
    pub file: String,
    /// What stands in it.
    pub text: Arc<str>,
    /// Bytes of the text; `None` means the file as a whole.
    pub range: Option<Range<usize>>,
}

impl Place {
    /// A file as a whole.
    pub fn file(file: impl Into<String>) -> Self {
        Place { file: file.into(), text: Arc::from(""), range: None }
    }

    /// Line and column of the beginning, in characters, from 1.
    pub fn line_column(&self) -> Option<(usize, usize)> {
        self.at(self.range.as_ref()?.start)
    }

    /// Line and column after the last character, in characters, from 1.
    pub fn end(&self) -> Option<(usize, usize)> {
        self.at(self.range.as_ref()?.end)
    }

    fn at(&self, offset: usize) -> Option<(usize, usize)> {
        let before = self.text.get(..offset)?;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        // An editor does not count a byte order mark as a column.
        let column = before[line_start..].trim_start_matches('\u{feff}').chars().count();
        Some((before.matches('\n').count() + 1, column + 1))
    }
}

/// A rule that was broken at a place.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The rule: code, message, help.
    pub rule: Rule,
    /// Where; `None` where no file is to blame.
    pub place: Option<Place>,
    /// Other places that belong to it.
    pub also: Vec<(Place, String)>,
}

/// What the stages have found so far.
#[derive(Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    strict: bool,
}

/// A stage found errors: the [`Findings`] hold them, and nothing may be written.
#[derive(Debug)]
pub struct Stop;

impl Findings {
    /// No findings yet; with `strict`, a warning stops the build like an error.
    pub fn new(strict: bool) -> Self {
        Findings { list: Vec::new(), strict }
    }

    /// Adds a finding at a place.
    pub fn add(&mut self, rule: impl Into<Rule>, place: Option<Place>) {
        self.push(Finding { rule: rule.into(), place, also: Vec::new() });
    }

    /// Adds a finding.
    pub fn push(&mut self, finding: Finding) {
        self.list.push(finding);
    }

    /// Adds a finding and stops.
    pub fn fail<T>(&mut self, rule: impl Into<Rule>, place: Option<Place>) -> Result<T, Stop> {
        self.add(rule, place);
        Err(Stop)
    }

    /// Adds what the operating system said, and stops. The messages of `fs_err` name the file.
    pub fn io<T>(&mut self, error: &std::io::Error) -> Result<T, Stop> {
        self.fail(Rule::Io { message: error.to_string() }, None)
    }

    /// Adds a diagnostic of the model, whose file indices point into `files`.
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

    /// How bad a finding is, strictness considered.
    pub fn level(&self, finding: &Finding) -> Level {
        if self.strict { Level::Error } else { finding.rule.level() }
    }

    /// Stops where an error was found: the end of a stage.
    pub fn checked(&self) -> Result<(), Stop> {
        if self.count(Level::Error) > 0 { Err(Stop) } else { Ok(()) }
    }

    /// How many there are of a level.
    pub fn count(&self, level: Level) -> usize {
        self.list.iter().filter(|finding| self.level(finding) == level).count()
    }

    /// All findings, in the order they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.list.iter()
    }
}
